import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { IIntent, INode } from '../api.generated';
import { failedCreation, IRow } from '../fleet';
import { formatUsd, stateKind } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { formatProgress, noStartText } from '../messages/panel';
import { formatPrice, formatPriceSource, provisioningName } from '../messages/units';
import { INodeKey, IProblem } from '../tokens';
import { NodeActions } from './nodeactions';
import { NodeDetails } from './nodedetails';
import { Problem } from './problem';
import { scrollToCenter } from './scroll';
import { State } from './state';

/** Callbacks of a node's row; each runs a command. */
export interface INodeActions {
  onOpenNotebook: (key: INodeKey) => void;
  onSwitchKernel: (key: INodeKey) => void;
  onStop: (key: INodeKey) => void;
  onStart: (key: INodeKey) => void;
  onDelete: (key: INodeKey) => void;
  onDismissFailure: (intent: IIntent) => void;
  onDismissRefusal: (key: INodeKey) => void;
}

interface IProps {
  row: IRow;
  refusal: IProblem | undefined;
  /** A request about the node is under way. */
  isBusy: boolean;
  /** Whether a notebook is open whose kernel could be switched. */
  canSwitchKernel: boolean;
  actions: INodeActions;
  /** Renders when the node stops. */
  autostopRow?: (node: INode) => JSX.Element;
  /** Renders how busy the node is. */
  load?: (node: INode) => JSX.Element | null;
  trans: TranslationBundle;
}

/** One node: its state, its cost, what is in progress and the possible actions. */
export const NodeRow = React.memo(Row, isSame);

/** Every response makes new records; only rows whose content changed are rendered again. */
function isSame(before: IProps, after: IProps): boolean {
  const { row: oldRow, ...oldRest } = before;
  const { row: newRow, ...newRest } = after;
  return shallowEqual(oldRest, newRest) && JSON.stringify(oldRow) === JSON.stringify(newRow);
}

function shallowEqual<T extends object>(left: T, right: T): boolean {
  return (Object.keys(left) as (keyof T)[]).every(key => Object.is(left[key], right[key]));
}

function Row(props: IProps): JSX.Element {
  const { row, refusal, actions, trans } = props;
  const item = useRef<HTMLLIElement>(null);
  const failed = failedCreation(row)?.intent_id;
  useEffect(() => {
    if (failed) {
      scrollToCenter(item.current);
    }
  }, [failed]);
  return (
    <li ref={item} className="jp-tpu-Node">
      {(row.node || row.intent) && <Heading row={row} trans={trans} />}
      {row.node && stateKind(row.node.state) === 'lost' && <Reclaimed trans={trans} />}
      {row.node?.state === 'STOPPED' && <NoStart node={row.node} trans={trans} />}
      {row.node?.health && row.node.health !== 'HEALTHY' && <Health node={row.node} />}
      {row.node && <Cost node={row.node} trans={trans} />}
      {row.node && props.autostopRow?.(row.node)}
      {row.intent && <Progress intent={row.intent} trans={trans} />}
      {row.failures.map(intent => (
        <Failure key={intent.intent_id} intent={intent} actions={actions} trans={trans} />
      ))}
      {refusal && (
        <Problem problem={refusal} trans={trans} onDismiss={() => actions.onDismissRefusal(row)} />
      )}
      {row.node && <NodeActions {...props} node={row.node} />}
      {row.node && props.load?.(row.node)}
    </li>
  );
}

function Heading({ row, trans }: { row: IRow; trans: TranslationBundle }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const details = useId();
  const node = row.node;
  return (
    <>
      <button
        type="button"
        className="jp-tpu-Node-heading"
        aria-expanded={node ? isOpen : undefined}
        aria-controls={isOpen ? details : undefined}
        disabled={!node}
        onClick={() => setOpen(!isOpen)}
      >
        <span className="jp-tpu-Node-line">
          <span className="jp-tpu-Node-name" title={row.node_id}>
            {row.node_id}
          </span>
          {node && <State state={node.state} />}
        </span>
        <Subtitle row={row} trans={trans} />
      </button>
      {isOpen && node && <NodeDetails id={details} node={node} trans={trans} />}
    </>
  );
}

function Subtitle({ row, trans }: { row: IRow; trans: TranslationBundle }): JSX.Element {
  const where = [row.node?.accelerator_type, row.zone].filter(Boolean).join(' · ');
  const terms = row.node && provisioningName(row.node, trans);
  return (
    <span className="jp-tpu-Node-line jp-mod-wrap">
      <span className="jp-tpu-Node-where" title={where}>
        {where}
      </span>
      {terms && <span className="jp-tpu-Badge">{terms}</span>}
      {row.node && !row.node.managed && (
        <span className="jp-tpu-Badge" title={messages.notCreatedByUs(trans)}>
          {common.createdElsewhere(trans)}
        </span>
      )}
    </span>
  );
}

function Reclaimed({ trans }: { trans: TranslationBundle }): JSX.Element {
  return <div className="jp-tpu-Muted">{messages.reclaimed(trans)}</div>;
}

function NoStart({ node, trans }: { node: INode; trans: TranslationBundle }): JSX.Element | null {
  const text = noStartText(node, trans);
  return text ? <div className="jp-tpu-Muted">{text}</div> : null;
}

function Health({ node }: { node: INode }): JSX.Element {
  return (
    <div className="jp-tpu-Health">
      {[node.health, node.health_description].filter(Boolean).join(': ')}
    </div>
  );
}

function Cost({ node, trans }: { node: INode; trans: TranslationBundle }): JSX.Element | null {
  if (!node.billing) {
    return null;
  }
  return (
    <div className="jp-tpu-Cost" title={formatPriceSource(node.price, trans)}>
      <span>{formatPrice(node.price, trans)}</span>
      {node.cost_usd !== null && (
        <span className="jp-tpu-Muted">{messages.costSoFar(formatUsd(node.cost_usd), trans)}</span>
      )}
    </div>
  );
}

function Progress({ intent, trans }: { intent: IIntent; trans: TranslationBundle }): JSX.Element {
  const text = formatProgress(intent.verb, intent.phase, trans);
  return (
    <div className="jp-tpu-Progress">
      <div role="progressbar" aria-label={text} className="jp-tpu-Bar" />
      <div>{text}</div>
      {intent.message && <div className="jp-tpu-Muted">{intent.message}</div>}
    </div>
  );
}

interface IFailureProps {
  intent: IIntent;
  actions: INodeActions;
  trans: TranslationBundle;
}

function Failure({ intent, actions, trans }: IFailureProps): JSX.Element | null {
  return intent.error ? (
    <Problem
      problem={intent.error}
      trans={trans}
      onDismiss={() => actions.onDismissFailure(intent)}
    />
  ) : null;
}
