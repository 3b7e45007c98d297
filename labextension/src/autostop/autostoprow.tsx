import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { INode, INodeAutostop, IRecovery } from '../api.generated';
import { Button } from '../components/button';
import { Check } from '../components/field';
import { useNow } from '../components/now';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import { describe } from '../connectionstate';
import * as messages from '../messages/autostop';
import {
  autostopSummary,
  guardState,
  keptRunning,
  sourceName,
  sourceState
} from '../messages/autostop';
import * as common from '../messages/common';
import { Cuts, cutOf } from '../money/connections';
import { IMoneyActions } from '../money/section';
import { useServerNow } from '../money/servertime';
import { IParts } from '../money/tokens';
import { ActivityHistory, IActivityHistory } from './activity';
import { AutostopForm } from './autostopform';
import { KeepRunningButtons } from './keeprunning';
import { Reminder } from './reminder';

interface IProps {
  node: Pick<INode, 'name' | 'spot' | 'billing'>;
  parts: Pick<IParts, 'autostops' | 'recovery'>;
  actions: Pick<IMoneyActions, 'onKeepRunning' | 'onEnd' | 'onSetAutostop' | 'onSetRecovery'>;
  /** The last hour, if it can be shown. */
  history?: IActivityHistory;
  trans: TranslationBundle;
}

interface ICutProps {
  node: Pick<INode, 'name' | 'state'>;
  cuts: Cuts;
  autostops: IParts['autostops'];
  trans: TranslationBundle;
}

/** That the connection to a READY node is lost, and for how long. */
export function LostConnection({ node, cuts, autostops, trans }: ICutProps): JSX.Element | null {
  const now_ms = useNow();
  const autostop = autostops.dated?.data.nodes.find(one => one.name === node.name);
  const cut = cutOf(cuts, node.name, autostop, now_ms / 1000);
  const line = cut && describe({ link: cut, offlineSince_ms: null }, now_ms, trans);
  return line && node.state === 'READY' ? (
    <div className="jp-tpu-Health" role="status">
      {line.title}
    </div>
  ) : null;
}

/** When and why a node stops, and how to keep it running. */
export function AutostopRow({ node, parts, actions, history, trans }: IProps): JSX.Element | null {
  const autostop = parts.autostops.dated?.data.nodes.find(one => one.name === node.name);
  const recovery = parts.recovery.dated?.data.choices.find(one => one.node_name === node.name);
  const now_s = useServerNow(parts.autostops);
  const { isSending, problem, send, dismiss } = useRequest();
  if (!autostop || (!node.billing && autostop.ends_at === null)) {
    return null;
  }
  const kept = keptRunning(autostop, now_s, trans);
  const busy = { isBusy: isSending, send };
  return (
    <div
      className={`jp-tpu-TimeLeft${autostop.is_warning ? ' jp-mod-warning' : ''}`}
      role="group"
      aria-label={messages.rowLabel(autostop.node_id, trans)}
    >
      <Reminder
        autostop={autostop}
        isBusy={isSending}
        trans={trans}
        onKeepRunning={request => send(() => actions.onKeepRunning(autostop, request))}
        onEnd={() => send(() => actions.onEnd(autostop, autostop.action))}
      />
      <strong>{autostopSummary(autostop, now_s, trans)}</strong>
      {autostop.is_warning && (
        <div className="jp-tpu-Announcer" role="alert">
          {messages.endsSoon(autostop.node_id, trans)}
        </div>
      )}
      {autostop.reason && <div className="jp-tpu-Muted">{autostop.reason}</div>}
      {kept && <div>{kept}</div>}
      {autostop.guard.state === 'cannot' && (
        <div className="jp-tpu-Complaint">{messages.needsServer(autostop.guard.detail, trans)}</div>
      )}
      <KeepRunningButtons
        autostop={autostop}
        isKept={Boolean(kept)}
        isBusy={isSending}
        now_s={now_s}
        trans={trans}
        onKeepRunning={request => send(() => actions.onKeepRunning(autostop, request))}
      />
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      <More
        autostop={autostop}
        isSpot={node.spot}
        recovery={recovery}
        actions={actions}
        history={history}
        news={parts.autostops.dated}
        trans={trans}
        {...busy}
      />
    </div>
  );
}

interface IPartProps extends Pick<IProps, 'actions' | 'trans'> {
  autostop: INodeAutostop;
  isBusy: boolean;
  send: (act: () => Promise<unknown>) => void;
}

interface IMoreProps extends IPartProps, Pick<IProps, 'history'> {
  news: unknown;
  isSpot: boolean;
  recovery: IRecovery | undefined;
}

function More(props: IMoreProps): JSX.Element {
  const { autostop, isSpot, recovery, isBusy, send, actions, history, news, trans } = props;
  const [isAsking, setAsking] = useState(false);
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="jp-tpu-Raw" onToggle={event => setOpen(isOwnToggle(event, isOpen))}>
      <summary>{messages.activityAndSettings(trans)}</summary>
      <dl className="jp-tpu-Details jp-tpu-Stack">
        {autostop.sources.map(source => (
          <React.Fragment key={source.source}>
            <dt>{sourceName(source.source, trans)}</dt>
            <dd title={source.detail}>
              {sourceState(source, autostop.sources, trans)}
              {source.detail && <span className="jp-tpu-Muted"> · {source.detail}</span>}
            </dd>
          </React.Fragment>
        ))}
        <dt>{messages.guard(trans)}</dt>
        <dd>
          {guardState(autostop.guard.state, trans)}
          {autostop.guard.detail && (
            <span className="jp-tpu-Muted"> · {autostop.guard.detail}</span>
          )}
        </dd>
      </dl>
      {isOpen && history && (
        <ActivityHistory node={autostop} history={history} news={news} trans={trans} />
      )}
      <RecreateChoice {...{ autostop, isSpot, recovery, isBusy, send, actions, trans }} />
      {isAsking ? (
        <AutostopForm
          autostop={autostop}
          trans={trans}
          onSet={change => actions.onSetAutostop(autostop, change)}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button
            aria-label={messages.changeOf(autostop.node_id, trans)}
            onClick={() => setAsking(true)}
          >
            {messages.change(trans)}
          </Button>
        </div>
      )}
    </details>
  );
}

/** React bubbles the toggle events of nested details. */
function isOwnToggle(event: React.SyntheticEvent<HTMLDetailsElement>, isOpen: boolean): boolean {
  return event.target === event.currentTarget ? event.currentTarget.open : isOpen;
}

/** Whether to recreate the node after pre-emption. */
function RecreateChoice(props: Omit<IMoreProps, 'history' | 'news'>): JSX.Element | null {
  const { autostop, isSpot, recovery, isBusy, send, actions, trans } = props;
  if (!isSpot && !recovery) {
    return null;
  }
  return (
    <>
      <Check
        label={common.recreate(trans)}
        checked={recovery?.is_on ?? false}
        isDisabled={isBusy}
        onChange={is_on => send(() => actions.onSetRecovery(autostop, is_on))}
      />
      {recovery?.message && <div className="jp-tpu-Muted">{recovery.message}</div>}
    </>
  );
}
