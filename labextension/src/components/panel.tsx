import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef, useState } from 'react';
import { IOffers, IStatus } from '../api.generated';
import { ICreateExtras } from '../create/chosen';
import { CreateForm } from '../create/createform';
import { ageOf, announce, rowsOf, STALE_AFTER_S } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { messageOf } from '../messages/problems';
import { formatDuration } from '../messages/units';
import { formatMoment } from '../money/moments';
import { INodeRenderers } from '../nodes/nodecard';
import { IListActions, NodeList } from '../nodes/nodelist';
import {
  IDatedList,
  IFormRequest,
  INodeKey,
  INodeSpec,
  IProblem,
  IRevealedCard,
  Phase
} from '../tokens';
import { Button } from './button';
import { Header } from './header';
import { useNow } from './now';
import { Problem, SaidContext } from './problem';

/** State of the panel. */
export interface IPanelState {
  phase: Phase;
  status: IStatus | null;
  list: IDatedList | null;
  offers: IOffers | null;
  problem: IProblem | null;
  offersProblem: IProblem | null;
  refusals: ReadonlyMap<string, IProblem>;
  busy: ReadonlySet<string>;
  isFormOpen: boolean;
  formRequest?: IFormRequest | null;
  /** The user's defaults for new nodes. */
  formDefaults?: Partial<INodeSpec>;
  /** The user's default idle timeout in seconds; 0 for the server's default. */
  idleDefault_s?: number;
  /** Keys of the nodes whose cards are open. */
  openCards: ReadonlySet<string>;
  revealedCard: IRevealedCard | null;
  createdNode: INodeKey | null;
  isCollaborative: boolean;
  isRefreshing: boolean;
  canOpenSimulator: boolean;
}

/** Callbacks of the panel; each of them runs a command. */
export interface IPanelActions extends IListActions {
  onOpenForm: () => void;
  onCloseForm: () => void;
  onCreate: (spec: INodeSpec) => Promise<void>;
  onRefresh: () => void;
  onOpenSimulator: () => void;
}

/** The set-up view, and which parts of the panel it replaces. */
export interface ISetupView {
  readonly section: JSX.Element;
  /** Whether the view already explains why there is no list. */
  readonly isConnecting: boolean;
  /** Whether the view guides the user to the first node. */
  readonly isLeading: boolean;
}

interface IProps {
  state: IPanelState;
  actions: IPanelActions;
  renderers: INodeRenderers;
  /** What the form remembers; missing if that plugin is disabled. */
  extras?: ICreateExtras;
  /** Missing if that plugin is disabled. */
  setup?: ISetupView;
  trans: TranslationBundle;
}

/** The whole panel. */
export function Panel(props: IProps): JSX.Element {
  const { state, actions, renderers, setup, trans } = props;
  if (state.phase === 'missing') {
    return <ServerExtensionMissing onRetry={actions.onRefresh} trans={trans} />;
  }
  const problem = problemIn(state);
  return (
    <SaidContext.Provider value={problem ? messageOf(problem, trans) : ''}>
      <Header
        status={state.status}
        list={state.list}
        trans={trans}
        isRefreshing={state.isRefreshing}
        freshness={<Freshness state={state} trans={trans} />}
        onCreate={actions.onOpenForm}
        onRefresh={actions.onRefresh}
        onOpenSimulator={state.canOpenSimulator ? actions.onOpenSimulator : undefined}
        rate={renderers.money?.rate}
      />
      {setup?.section}
      <Problems {...props} />
      {state.isFormOpen && <Form {...props} />}
      {state.list ? <Nodes {...props} list={state.list} /> : <Waiting {...props} />}
      {renderers.money?.sections({
        isQuiet: setup?.isLeading,
        isEmulated: state.status?.emulated,
        nodes: state.list?.nodes
      })}
      <Announcer list={state.list} trans={trans} />
    </SaidContext.Provider>
  );
}

interface IMissingProps {
  onRetry: () => void;
  trans: TranslationBundle;
}

function ServerExtensionMissing({ onRetry, trans }: IMissingProps): JSX.Element {
  return (
    <div className="jp-tpu-Empty" role="alert">
      <h2>{messages.serverExtensionMissing(trans)}</h2>
      <p>{messages.installServerExtension(trans)}</p>
      <Button onClick={onRetry}>{common.tryAgain(trans)}</Button>
    </div>
  );
}

function Waiting({ state, trans }: IProps): JSX.Element | null {
  return state.problem || state.status?.error ? null : (
    <div className="jp-tpu-Empty jp-tpu-Muted" role="status">
      {messages.loadingNodes(trans)}
    </div>
  );
}

/** When the cloud last responded: the time or, if the list is out of date, its age. */
function Freshness({ state, trans }: Pick<IProps, 'state' | 'trans'>): JSX.Element | null {
  const now = useNow();
  const age = state.list && ageOf(state.list, now);
  if (!state.list || age === null) {
    return null;
  }
  const isStale = age > STALE_AFTER_S || state.problem !== null || state.list.error !== null;
  return isStale ? (
    <span className="jp-tpu-Stale">{common.lastUpdated(formatDuration(age, trans), trans)}</span>
  ) : (
    <span className="jp-tpu-Fresh">
      {common.updatedAt(formatMoment(now / 1000 - age, now / 1000), trans)}
    </span>
  );
}

function problemIn({ problem, status, list }: IPanelState): IProblem | null {
  return problem ?? status?.error ?? list?.error ?? null;
}

/** Problems due to which the list is incomplete or out of date. */
function Problems({ state, actions, setup, trans }: IProps): JSX.Element {
  const problem = setup?.isConnecting ? null : problemIn(state);
  const zones = state.list?.unreachable ?? [];
  return (
    <>
      {problem && <Problem problem={problem} trans={trans} onRetry={actions.onRefresh} />}
      {state.list?.notices.map(({ message }) => (
        <div key={message} className="jp-tpu-Notice" role="status">
          {message}
        </div>
      ))}
      {state.isCollaborative && (
        <div className="jp-tpu-Notice" role="status">
          {messages.notRestoredInSharedNotebooks(trans)}
        </div>
      )}
      {zones.length > 0 && (
        <div className="jp-tpu-Unreachable" role="status">
          {messages.zonesUnreachable(zones.join(', '), trans)}
        </div>
      )}
    </>
  );
}

function Form({ state, actions, renderers, extras, setup, trans }: IProps): JSX.Element {
  if (state.offers) {
    const problem = problemIn(state);
    const isBlocked = setup?.isConnecting || problem?.code === 'credentials_missing';
    return (
      <CreateForm
        key={state.formRequest?.turn}
        request={state.formRequest}
        defaults={state.formDefaults}
        idleDefault_s={state.idleDefault_s}
        offers={state.offers}
        list={state.list}
        trans={trans}
        createActions={renderers.money?.createActions}
        extras={extras}
        blocked={isBlocked ? problem : null}
        onCreate={actions.onCreate}
        onCancel={actions.onCloseForm}
      />
    );
  }
  return state.offersProblem ? (
    <Problem problem={state.offersProblem} trans={trans} onDismiss={actions.onCloseForm} />
  ) : (
    <div className="jp-tpu-Empty jp-tpu-Muted">{messages.loadingOffers(trans)}</div>
  );
}

function Nodes({
  state,
  list,
  actions,
  renderers,
  setup,
  trans
}: IProps & { list: IDatedList }): JSX.Element | null {
  const rows = rowsOf(list);
  if (rows.length === 0) {
    return state.isFormOpen || setup?.isLeading || list.age_s === null ? null : (
      <NoNodes onCreate={actions.onOpenForm} trans={trans} />
    );
  }
  return (
    <NodeList {...{ rows, state, actions, renderers, trans }} clockAhead_s={clockAheadOf(list)} />
  );
}

/** Return the seconds by which the server's clock is ahead of the browser's, rounded. */
function clockAheadOf({ as_of, age_s, received_ms }: IDatedList): number {
  return as_of === null || age_s === null ? 0 : Math.round(as_of + age_s - received_ms / 1000);
}

interface INoNodesProps {
  onCreate: () => void;
  trans: TranslationBundle;
}

function NoNodes({ onCreate, trans }: INoNodesProps): JSX.Element {
  return (
    <div className="jp-tpu-Empty">
      <p>{messages.noNodes(trans)}</p>
      <p className="jp-tpu-Muted">{messages.noNodesHint(trans)}</p>
      <Button kind="accept" onClick={onCreate}>
        {common.createNode(trans)}
      </Button>
    </div>
  );
}

interface IAnnouncerProps {
  list: IDatedList | null;
  trans: TranslationBundle;
}

/** Announces state changes to screen readers. */
function Announcer({ list, trans }: IAnnouncerProps): JSX.Element {
  const last = useRef(list);
  const [text, setText] = useState('');
  useEffect(() => {
    const news = last.current && list ? announce(last.current, list, trans) : '';
    last.current = list;
    if (news) {
      setText(news);
    }
  }, [list, trans]);
  return (
    <div className="jp-tpu-Announcer" aria-live="polite">
      {text}
    </div>
  );
}
