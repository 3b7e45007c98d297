import { TranslationBundle } from '@jupyterlab/translation';
import { deleteIcon } from '@jupyterlab/ui-components';
import React, { useContext } from 'react';
import { INode, INodeAutostop } from '../api.generated';
import { Button } from '../components/button';
import { useNow } from '../components/now';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import { describe } from '../connectionstate';
import { ErrorActionsContext } from '../erroractions';
import { clockIcon } from '../icons';
import * as messages from '../messages/autostop';
import { autostopShort, autostopSummary } from '../messages/autostop';
import { Cuts, cutOf } from '../money/connections';
import { IMoneyActions } from '../money/section';
import { useServerNow } from '../money/servertime';
import { IParts } from '../money/tokens';
import { problemOf } from '../request';
import { Reminder } from './reminder';
import { canKeepRunning } from './rules';

const HOUR_S = 3600;

interface IProps {
  node: Pick<INode, 'name' | 'billing'>;
  autostops: IParts['autostops'];
  actions: Pick<IMoneyActions, 'onKeepRunning'>;
  trans: TranslationBundle;
}

interface IBriefProps extends IProps {
  /** Whether a kernel is starting on the node. */
  isStarting?: boolean;
}

/** When a node stops, in one or two words, and a button that adds an hour. */
export function AutostopBrief(props: IBriefProps): JSX.Element | null {
  const { node, isStarting = false, autostops, actions, trans } = props;
  const known = useContext(ErrorActionsContext);
  const { isSending, send } = useRequest();
  const now_s = useServerNow(autostops);
  const autostop = autostopOf(autostops, node);
  if (!autostop || (!node.billing && autostop.ends_at === null)) {
    return null;
  }
  const keep = (): void =>
    send(() =>
      actions
        .onKeepRunning(autostop, { for_s: HOUR_S })
        .catch(error => void known?.notify(problemOf(error)))
    );
  const summary = autostopSummary(autostop, now_s, trans);
  const short = autostopShort(autostop, { now_s, isStarting }, trans);
  // without room for words, the icon tells a deletion from a stop
  const Icon = autostop.action === 'delete' ? deleteIcon.react : clockIcon.react;
  return (
    <>
      <span
        className={`jp-tpu-Brief${autostop.is_warning ? ' jp-mod-warning' : ''}`}
        title={summary}
      >
        <span className="jp-tpu-Announcer">{summary}</span>
        <span className="jp-tpu-Node-long" aria-hidden="true">
          {autostop.ends_at === null ? short : messages.endsIn(autostop, short, trans)}
        </span>
        <span className="jp-tpu-Node-short" aria-hidden="true">
          {autostop.ends_at !== null && (
            <span className="jp-tpu-State-icon">
              <Icon tag={null} />
            </span>
          )}
          {short}
        </span>
      </span>
      {autostop.ends_at !== null && canKeepRunning(autostop) && (
        <Button
          isOff={isSending}
          kind={autostop.is_warning ? 'accept' : 'plain'}
          aria-label={messages.keepOneHourOf(autostop.node_id, trans)}
          title={messages.keepOneHour(trans)}
          onClick={keep}
        >
          {messages.plusOneHour(trans)}
        </Button>
      )}
    </>
  );
}

interface IAlertsProps extends Omit<IProps, 'actions' | 'node'> {
  node: Pick<INode, 'name' | 'state'>;
  cuts: Cuts;
  actions: Pick<IMoneyActions, 'onKeepRunning' | 'onEnd'>;
}

/** Warnings that are visible even on a closed card: a lost connection, an imminent stop, a node billed for days. */
export function AutostopAlerts(props: IAlertsProps): JSX.Element | null {
  const { node, autostops, cuts, actions, trans } = props;
  const { isSending, problem, send, dismiss } = useRequest();
  const autostop = autostopOf(autostops, node);
  return (
    <>
      {cuts.size > 0 && node.state === 'READY' && (
        <LostConnection node={node} cuts={cuts} autostop={autostop} trans={trans} />
      )}
      {autostop?.is_warning && (
        <div className="jp-tpu-Announcer" role="alert">
          {messages.endsSoon(autostop.node_id, trans)}
        </div>
      )}
      {autostop?.reminder && (
        <Reminder
          autostop={autostop}
          isBusy={isSending}
          trans={trans}
          onKeepRunning={request => send(() => actions.onKeepRunning(autostop, request))}
          onEnd={() => send(() => actions.onEnd(autostop, autostop.action))}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </>
  );
}

interface ILostProps {
  node: Pick<INode, 'name'>;
  cuts: Cuts;
  autostop: INodeAutostop | undefined;
  trans: TranslationBundle;
}

/** A warning that the connection to a READY node is lost, with the time since then. */
function LostConnection({ node, cuts, autostop, trans }: ILostProps): JSX.Element | null {
  const now_ms = useNow();
  const cut = cutOf(cuts, node.name, autostop, now_ms / 1000);
  const line = cut && describe({ link: cut, offlineSince_ms: null }, now_ms, trans);
  return line ? (
    <div className="jp-tpu-Health" role="status">
      {line.title}
    </div>
  ) : null;
}

function autostopOf(
  { dated }: IParts['autostops'],
  { name }: Pick<INode, 'name'>
): INodeAutostop | undefined {
  return dated?.data.nodes.find(one => one.name === name);
}
