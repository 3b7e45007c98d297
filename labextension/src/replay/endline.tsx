/** The line above a notebook whose node has ended: what happened, when and why, and the way back. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode, INodeEnd, INodeRecovery, IReplay } from '../api.generated';
import { Banner } from '../components/banner';
import { Button } from '../components/button';
import { useNow } from '../components/now';
import * as common from '../messages/common';
import * as messages from '../messages/nodeend';
import { elapsedText, endText, recreatingText } from '../messages/nodeend';
import { IWayBack, wayBack } from './wayback';

export interface IEndActions {
  onWayBack: (way: IWayBack) => void;
  onChooseKernel: () => void;
  onDismiss: () => void;
}

interface IProps extends IEndActions {
  lost: IReplay & { readonly end: INodeEnd };
  /** When `lost` arrived, in ms. */
  received_ms: number;
  node: INode | undefined;
  trans: TranslationBundle;
  onHeight: (height: number) => void;
}

export function EndLine(props: IProps): JSX.Element {
  const { lost, received_ms, node, trans, onWayBack, onChooseKernel, onDismiss, onHeight } = props;
  const { end, recovery } = lost;
  if (recovery && !recovery.has_given_up) {
    const since_ms = received_ms - (lost.age_s ?? 0) * 1000;
    return <Recreating {...props} end={end} recovery={recovery} since_ms={since_ms} />;
  }
  const way = wayBack(end, node);
  return (
    <Banner onHeight={onHeight}>
      <span role="status">{endText(end, new Date(), trans)}</span>
      <small className="jp-tpu-Replay-left">
        {recovery ? recovery.message : messages.whatIsLeft(trans)}
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
