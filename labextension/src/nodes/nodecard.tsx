import { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useRef } from 'react';
import { IIntent, INode } from '../api.generated';
import { Problem } from '../components/problem';
import { scrollToCenter } from '../components/scroll';
import { State } from '../components/state';
import { failedCreation, IRow } from '../fleet';
import { formatUsd, stateKind } from '../format';
import { ILoadRenderers } from '../load/renderer';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { noStartText } from '../messages/panel';
import { formatPriceSource, nodePrice, provisioningName } from '../messages/units';
import { IMoneyRenderers } from '../money/renderers';
import { INodeKey, IProblem } from '../tokens';
import { ICardActions, MoreButton, PrimaryAction } from './cardactions';
import { IKernelRenderers } from './kernelrenderers';
import { NodeDetails } from './nodedetails';
import { Progress } from './progress';
import { CARD, cardAttributes } from './target';

/** Callbacks of a node's card; each runs a command. */
export interface INodeActions extends ICardActions {
  onToggle: (key: INodeKey) => void;
  onCopy: (text: string) => void;
  onDismissFailure: (intent: IIntent) => void;
  onDismissRefusal: (key: INodeKey) => void;
}

/** Renderers for other plugins' data about a node; undefined if a plugin is disabled. */
export interface INodeRenderers {
  readonly money?: IMoneyRenderers;
  readonly load?: ILoadRenderers;
  readonly kernels?: IKernelRenderers;
  /** The open terminals on an open card. */
  readonly terminals?: (node: INode) => JSX.Element;
}

interface IProps {
  row: IRow;
  refusal: IProblem | undefined;
  /** Whether a request about the node is in progress. */
  isBusy: boolean;
  isOpen: boolean;
  /** Opens the form of the auto-stop rules when it increases. */
  changeTurn: number;
  /** How far the server's clock is ahead of the browser's, in seconds, while an operation is in progress. */
  clockAhead_s: number;
  /** Whether another node has the same name, so that the card names the zone first. */
  isTwin: boolean;
  /** Whether the user is selecting nodes. */
  isChoosing: boolean;
  /** Null for a node that can't be selected. */
  isChosen: boolean | null;
  /** Changes the selection. */
  onChoose: (change: (chosen: ReadonlySet<string> | null) => ReadonlySet<string> | null) => void;
  actions: INodeActions;
  renderers: INodeRenderers;
  trans: TranslationBundle;
}

/** The card of a node: two lines when closed; kernels, chips, auto-stop and details as well when open. */
export const NodeCard = React.memo(Card, isSame);

/**
 * Whether two cards have the same content: every response creates new records, but only changed cards are rendered
 * again.
 */
function isSame(before: IProps, after: IProps): boolean {
  const { row: oldRow, ...oldRest } = before;
  const { row: newRow, ...newRest } = after;
  return shallowEqual(oldRest, newRest) && JSON.stringify(oldRow) === JSON.stringify(newRow);
}

function shallowEqual<T extends object>(left: T, right: T): boolean {
  return (Object.keys(left) as (keyof T)[]).every(key => Object.is(left[key], right[key]));
}

function Card(props: IProps): JSX.Element {
  const { row, refusal, isOpen, actions, renderers, trans } = props;
  const { node, intent } = row;
  const item = useRef<HTMLLIElement>(null);
  const body = useId();
  const failed = failedCreation(row)?.intent_id;
  useEffect(() => {
    if (failed) {
      scrollToCenter(item.current);
    }
  }, [failed]);
  const exists = node !== null || intent !== null;
  return (
    <li
      ref={item}
      tabIndex={-1}
      className={`${CARD}${isOpen ? ' jp-mod-open' : ''}`}
      {...(exists ? cardAttributes(row) : {})}
    >
      {exists && (
        <>
          <div className="jp-tpu-Node-line">
            {props.isChoosing && <Choice {...props} />}
            <Heading {...props} bodyId={body} />
            <MoreButton name={row.node_id} trans={trans} />
          </div>
          <SecondLine {...props} />
          {renderers.money?.recoveryBrief(node?.name ?? intent?.node_name ?? '')}
        </>
      )}
      {node && <Health node={node} />}
      {node && !isEnding(row) && renderers.money?.autostopAlerts(node)}
      {row.failures.map(each => (
        <Failure key={each.intent_id} intent={each} actions={actions} trans={trans} />
      ))}
      {refusal && (
        <Problem problem={refusal} trans={trans} onDismiss={() => actions.onDismissRefusal(row)} />
      )}
      {isOpen && node && <Body {...props} id={body} node={node} />}
    </li>
  );
}

/** The checkbox of a card while nodes are selected. */
function Choice({ row, isChosen, onChoose, trans }: IProps): JSX.Element {
  return (
    <input
      type="checkbox"
      className="jp-tpu-Node-choice"
      aria-label={messages.selectNode(row.node_id, trans)}
      checked={isChosen ?? false}
      disabled={isChosen === null}
      onChange={({ target }) =>
        onChoose(chosen => {
          const next = new Set(chosen);
          if (target.checked) {
            next.add(row.key);
          } else {
            next.delete(row.key);
          }
          return next;
        })
      }
    />
  );
}

/** The first line, which opens and closes the card. */
function Heading(props: IProps & { bodyId: string }): JSX.Element {
  const { row, isOpen, actions, trans } = props;
  const { node } = row;
  const type = node?.accelerator_type;
  // items that do not fit wrap out of sight, last ones first
  const where = (props.isTwin ? [row.zone, type] : [type, row.zone]).filter(Boolean);
  const Caret = (isOpen ? caretDownIcon : caretRightIcon).react;
  return (
    <button
      type="button"
      className="jp-tpu-Node-heading"
      aria-expanded={node ? isOpen : undefined}
      aria-controls={isOpen ? props.bodyId : undefined}
      disabled={!node}
      title={[row.node_id, where.join(' · '), node && priceTitle(node, trans)]
        .filter(Boolean)
        .join('\n')}
      onClick={() => actions.onToggle(row)}
    >
      <Caret tag="span" className="jp-tpu-Section-caret" aria-hidden="true" />
      <State state={stateOf(row)} trans={trans} />
      <bdi className="jp-tpu-Node-name">{row.node_id}</bdi>
      <span className="jp-tpu-Node-where">
        {where.map((part, index) => (
          <React.Fragment key={part}>
            {index > 0 && ' '}
            <span>{index > 0 ? `· ${part}` : part}</span>
          </React.Fragment>
        ))}
      </span>
      {node?.billing && <span className="jp-tpu-Node-price">{priceText(node, trans)}</span>}
    </button>
  );
}

/** The state of a node after each request; the list may be older than the request. */
const REQUESTED: { readonly [verb in IIntent['verb']]: string } = {
  create: 'CREATING',
  delete: 'DELETING',
  stop: 'STOPPING',
  start: 'STARTING'
};

function stateOf({ node, intent }: IRow): string {
  const requested = intent && !intent.settled ? REQUESTED[intent.verb] : null;
  return requested ?? node?.state ?? REQUESTED.create;
}

/** Whether the node is already stopping or being deleted, so that its auto-stop no longer matters. */
function isEnding(row: IRow): boolean {
  const state = stateOf(row);
  return state === REQUESTED.stop || state === REQUESTED.delete;
}

function priceText({ price, covered }: INode, trans: TranslationBundle): string {
  if (covered) {
    return messages.grant(trans);
  }
  return price
    ? messages.pricePerHour(formatUsd(price.usd_per_hour), trans)
    : messages.priceUnknown(trans);
}

function priceTitle(node: INode, trans: TranslationBundle): string {
  const { price, cost_usd, covered } = node;
  const soFar = cost_usd === null ? '' : messages.costSoFar(formatUsd(cost_usd), trans);
  const now = covered && nodePrice(node, trans);
  return [now, soFar, formatPriceSource(price, trans)].filter(Boolean).join('\n');
}

/** The second line: chips, notebooks and auto-stop, or the operation in progress; and the primary action. */
function SecondLine(props: IProps): JSX.Element {
  const { row, isBusy, actions, renderers, trans } = props;
  const { node, intent } = row;
  return (
    <div className="jp-tpu-Node-second">
      {intent ? (
        <Progress intent={intent} clockAhead_s={props.clockAhead_s} trans={trans} />
      ) : node?.state === 'READY' ? (
        <>
          {renderers.load?.strip(node)}
          <span className="jp-tpu-Node-use">{renderers.kernels?.names(node)}</span>
          {renderers.kernels
            ? renderers.kernels.whileStarting(node, isStarting =>
                renderers.money?.autostopBrief(node, isStarting)
              )
            : renderers.money?.autostopBrief(node)}
        </>
      ) : (
        <span className="jp-tpu-Node-use jp-tpu-Muted">{node && restText(node, trans)}</span>
      )}
      <PrimaryAction {...{ row, isBusy, actions, trans }} />
    </div>
  );
}

/** The cost or quota of a node that is not running. */
function restText({ state }: INode, trans: TranslationBundle): string {
  if (state === 'STOPPED') {
    return messages.diskBilled(trans);
  }
  return stateKind(state) === 'lost' ? messages.usesQuota(trans) : '';
}

/** The cloud's description of a node that is not healthy. */
function Health({ node }: { node: INode }): JSX.Element | null {
  return node.health && node.health !== 'HEALTHY' ? (
    <div className="jp-tpu-Health">
      {[node.health, node.health_description].filter(Boolean).join(': ')}
    </div>
  ) : null;
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

interface IBodyProps extends IProps {
  id: string;
  node: INode;
}

function Body({ id, row, node, changeTurn, actions, renderers, trans }: IBodyProps): JSX.Element {
  const isReady = node.state === 'READY';
  const terms = provisioningName(node, trans);
  const note =
    stateKind(node.state) === 'lost'
      ? messages.reclaimed(trans)
      : node.state === 'STOPPED'
        ? noStartText(node, trans)
        : '';
  return (
    <div id={id} className="jp-tpu-Node-body">
      {(terms || !node.managed) && (
        <div className="jp-tpu-Node-badges">
          {terms && <span className="jp-tpu-Badge">{terms}</span>}
          {!node.managed && (
            <span className="jp-tpu-Badge" title={messages.notCreatedByUs(trans)}>
              {common.createdElsewhere(trans)}
            </span>
          )}
        </div>
      )}
      {note && <div className="jp-tpu-Muted">{note}</div>}
      {isReady && renderers.kernels?.list(node)}
      {isReady && renderers.terminals?.(node)}
      {!isEnding(row) && renderers.money?.autostopRow(node, changeTurn)}
      {isReady && renderers.load?.chips(node)}
      {isReady && renderers.load?.section(node)}
      <NodeDetails node={node} onCopy={actions.onCopy} trans={trans} />
    </div>
  );
}
