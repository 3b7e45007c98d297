import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef, useState } from 'react';
import { INode, INodeAutostop, IRecovery } from '../api.generated';
import { Button } from '../components/button';
import { Check } from '../components/field';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as messages from '../messages/autostop';
import {
  activityReason,
  autostopSummary,
  guardDetail,
  guardState,
  keptRunning,
  sourceName,
  sourceState
} from '../messages/autostop';
import * as common from '../messages/common';
import { IMoneyActions } from '../money/section';
import { useServerNow } from '../money/servertime';
import { IParts } from '../money/tokens';
import { ActivityHistory, IActivityHistory } from './activity';
import { AutostopForm } from './autostopform';
import { KeepRunningButtons } from './keeprunning';

interface IProps {
  node: Pick<INode, 'name' | 'spot' | 'billing'>;
  parts: Pick<IParts, 'autostops' | 'recovery'>;
  actions: Pick<IMoneyActions, 'onKeepRunning' | 'onEnd' | 'onSetAutostop' | 'onSetRecovery'>;
  /** The history of the last hour, if it is available. */
  history?: IActivityHistory;
  /** The form for the rules opens whenever this number increases. */
  changeTurn?: number;
  trans: TranslationBundle;
}

/** When and why a node stops, in one sentence, with controls to keep it running and to change the rules. */
export function AutostopRow(props: IProps): JSX.Element | null {
  const { node, parts, actions, history, changeTurn = 0, trans } = props;
  const autostop = parts.autostops.dated?.data.nodes.find(one => one.name === node.name);
  const recovery = parts.recovery.dated?.data.choices.find(one => one.node_name === node.name);
  const now_s = useServerNow(parts.autostops);
  const { isSending, problem, send, dismiss } = useRequest();
  const [isAsking, setAsking] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => setAsking(changeTurn > 0), [changeTurn]);
  if (!autostop || (!node.billing && autostop.ends_at === null)) {
    return null;
  }
  const reason = activityReason(autostop, trans);
  const kept = keptRunning(autostop, now_s, trans);
  const close = (): void => {
    setAsking(false);
    opener.current?.focus();
  };
  return (
    <div
      className={`jp-tpu-TimeLeft${autostop.is_warning ? ' jp-mod-warning' : ''}`}
      role="group"
      aria-label={messages.rowLabel(autostop.node_id, trans)}
    >
      <strong>{autostopSummary(autostop, now_s, trans)}</strong>
      {reason && <div className="jp-tpu-Muted">{reason}</div>}
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
      >
        <Button
          ref={opener}
          aria-expanded={isAsking}
          aria-label={messages.changeOf(autostop.node_id, trans)}
          onClick={() => setAsking(!isAsking)}
        >
          {messages.change(trans)}
        </Button>
      </KeepRunningButtons>
      {isAsking && (
        <AutostopForm
          autostop={autostop}
          trans={trans}
          onSet={change => actions.onSetAutostop(autostop, change)}
          onClose={close}
        />
      )}
      {(node.spot || recovery) && (
        <Recreate
          recovery={recovery}
          isBusy={isSending}
          trans={trans}
          onChange={is_on => send(() => actions.onSetRecovery(autostop, is_on))}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      <Activity autostop={autostop} history={history} news={parts.autostops.dated} trans={trans} />
    </div>
  );
}

interface IActivityProps extends Pick<IProps, 'history' | 'trans'> {
  autostop: INodeAutostop;
  news: unknown;
}

/** The sources of activity, and the last hour. */
function Activity({ autostop, history, news, trans }: IActivityProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="jp-tpu-Raw" onToggle={event => setOpen(isOwnToggle(event, isOpen))}>
      <summary>{messages.activityDetails(trans)}</summary>
      <dl className="jp-tpu-Details jp-tpu-Stack">
        {autostop.sources.map(source => (
          <React.Fragment key={source.source}>
            <dt>{sourceName(source.source, trans)}</dt>
            <dd title={source.detail}>
              {sourceState(source, autostop, trans)}
              {source.detail && <span className="jp-tpu-Muted"> · {source.detail}</span>}
            </dd>
          </React.Fragment>
        ))}
        <dt>{messages.guard(trans)}</dt>
        <dd>
          {guardState(autostop.guard.state, trans)}
          {autostop.guard.detail && (
            <span className="jp-tpu-Muted"> · {guardDetail(autostop, trans)}</span>
          )}
        </dd>
      </dl>
      {isOpen && history && (
        <ActivityHistory node={autostop} history={history} news={news} trans={trans} />
      )}
    </details>
  );
}

/** Ignore events of nested details elements: React lets toggle events bubble. */
function isOwnToggle(event: React.SyntheticEvent<HTMLDetailsElement>, isOpen: boolean): boolean {
  return event.target === event.currentTarget ? event.currentTarget.open : isOpen;
}

interface IRecreateProps {
  recovery: IRecovery | undefined;
  isBusy: boolean;
  trans: TranslationBundle;
  onChange: (isOn: boolean) => void;
}

/** The setting for recreating the node after a pre-emption. */
function Recreate({ recovery, isBusy, trans, onChange }: IRecreateProps): JSX.Element {
  return (
    <>
      <Check
        label={common.recreate(trans)}
        checked={recovery?.is_on ?? false}
        isDisabled={isBusy}
        onChange={onChange}
      />
      {recovery?.message && <div className="jp-tpu-Muted">{recovery.message}</div>}
    </>
  );
}
