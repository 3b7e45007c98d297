/** The line above a notebook whose node has ended: what happened, when and why, and how to go on. */

import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect } from 'react';
import { INode, INodeEnd, INodeRecovery, IReplay } from '../api.generated';
import { Banner } from '../components/banner';
import { Button } from '../components/button';
import { useNow } from '../components/now';
import { ageOf, isCurrent } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/nodeend';
import { elapsedText, endText, recreatingText } from '../messages/nodeend';
import { formatDuration } from '../messages/units';
import { ITpuModel } from '../tokens';
import { IWayBack, wayBack } from './wayback';

/** How often an outdated list is requested again, in milliseconds; the panel requests it only while it is visible. */
const ASK_AGAIN_MS = 15_000;

export interface IEndActions {
  onWayBack: (way: IWayBack) => void;
  onChooseKernel: () => void;
  onDismiss: () => void;
}

interface IProps extends IEndActions {
  lost: IReplay & { readonly end: INodeEnd };
  /** When `lost` arrived, in milliseconds. */
  received_ms: number;
  /** The list of nodes, which shows how the node can be brought back; null if there is none. */
  nodes: Nodes | null;
  trans: TranslationBundle;
  onHeight: (height: number) => void;
}

export type Nodes = Pick<ITpuModel, 'list' | 'problem' | 'findNode' | 'refresh'>;

export function EndLine(props: IProps): JSX.Element {
  const { lost, received_ms } = props;
  const { end, recovery } = lost;
  if (recovery && !recovery.has_given_up) {
    const since_ms = received_ms - (lost.age_s ?? 0) * 1000;
    return <Recreating {...props} end={end} recovery={recovery} since_ms={since_ms} />;
  }
  return <Ended {...props} />;
}

function Ended(props: IProps): JSX.Element {
  const { lost, nodes, trans, onWayBack, onChooseKernel, onDismiss, onHeight } = props;
  const { end, recovery } = lost;
  const { node, unknown } = useListed(end, nodes, trans);
  const way = wayBack(end, node);
  return (
    <Banner onHeight={onHeight}>
      <span role="status">{endText(end, new Date(), trans)}</span>
      <small className="jp-tpu-Replay-left">
        {recovery ? recovery.message : messages.whatIsLeft(trans)} {unknown}
      </small>
      {way && (
        <Button isOff={!way.isDue} onClick={() => onWayBack(way)}>
          {labelOf(way, trans)}
        </Button>
      )}
      <Button onClick={onChooseKernel}>{messages.chooseKernel(trans)}</Button>
      <Button onClick={onDismiss}>{common.dismiss(trans)}</Button>
    </Banner>
  );
}

/**
 * The node as it is now, undefined if it is gone; if its state is unknown, a text that says so.
 *
 *  A list from before the end still shows the node as READY, but no kernel can start there.
 */
function useListed(
  end: INodeEnd,
  nodes: Nodes | null,
  trans: TranslationBundle
): { readonly node?: INode; readonly unknown?: string } {
  const now = useNow();
  const list = nodes?.list;
  const isKnown = list ? !nodes.problem && isCurrent(list, end.zone, now) : !nodes?.problem;
  const turn = isKnown ? 0 : Math.floor(now / ASK_AGAIN_MS);
  useEffect(() => {
    if (turn) {
      nodes?.refresh().catch(() => undefined); // the model keeps the error
    }
  }, [nodes, turn]);
  if (!isKnown) {
    const age = list ? ageOf(list, now) : null;
    return {
      unknown: messages.stateUnknown(age === null ? null : formatDuration(age, trans), trans)
    };
  }
  return list && (list.as_of ?? 0) >= end.at ? { node: nodes?.findNode(end) } : {};
}

function labelOf({ kind }: IWayBack, trans: TranslationBundle): string {
  switch (kind) {
    case 'kernel':
      return messages.startKernel(trans);
    case 'start':
      return messages.startNode(trans);
    case 'starting':
      return messages.starting(trans);
    case 'recreate':
      return messages.recreateNode(trans);
  }
}

interface IRecreatingProps extends IProps {
  end: INodeEnd;
  recovery: INodeRecovery;
  since_ms: number;
}

function Recreating({
  end,
  recovery,
  since_ms,
  trans,
  onChooseKernel,
  onHeight
}: IRecreatingProps): JSX.Element {
  const elapsed_s = (useNow() - since_ms) / 1000;
  return (
    <Banner onHeight={onHeight}>
      <span title={end.node_id}>
        <span role="status">{recreatingText(end, recovery, new Date(), trans)}</span>
        <span role="timer" aria-live="off">{` · ${elapsedText(elapsed_s)}`}</span>
      </span>
      <Button onClick={onChooseKernel}>{messages.chooseKernel(trans)}</Button>
    </Banner>
  );
}
