import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Check } from '../../components/field';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import * as messages from '../../messages/autostop';
import {
  autostopSummary,
  guardState,
  keptRunning,
  sourceName,
  sourceState
} from '../../messages/autostop';
import * as common from '../../messages/common';
import { INode } from '../../tokens';
import { IdlePast, IIdlePast } from '../past/idle';
import { IBrake, IRecovery } from '../records';
import { useServerNow } from '../servertime';
import { IParts } from '../tokens';
import { BrakesForm } from './brakesform';
import { KeepButtons } from './keep';
import { Reminder } from './reminder';
import { IMoneyActs } from './section';

interface IProps {
  node: Pick<INode, 'name' | 'spot' | 'billing'>;
  parts: Pick<IParts, 'brakes' | 'recovery'>;
  acts: Pick<IMoneyActs, 'onKeep' | 'onEnd' | 'onSetBrakes' | 'onSetRecovery'>;
  /** The last hour, where it can be shown. */
  past?: IIdlePast;
  trans: TranslationBundle;
}

/** When a node ends and why, and how to keep it longer. */
export function TimeLeft({ node, parts, acts, past, trans }: IProps): JSX.Element | null {
  const brake = parts.brakes.dated?.data.nodes.find(one => one.name === node.name);
  const recovery = parts.recovery.dated?.data.choices.find(one => one.node_name === node.name);
  const now_s = useServerNow(parts.brakes);
  const { isSending, problem, send, dismiss } = useSending();
  if (!brake || (!node.billing && brake.ends_at === null)) {
    return null;
  }
  const kept = keptRunning(brake, now_s, trans);
  const busy = { isBusy: isSending, send };
  return (
    <div
      className={`jp-tpu-TimeLeft${brake.is_warning ? ' jp-mod-warning' : ''}`}
      role="group"
      aria-label={messages.rowLabel(brake.node_id, trans)}
    >
      <Reminder
        brake={brake}
        isBusy={isSending}
        trans={trans}
        onKeep={keep => send(() => acts.onKeep(brake, keep))}
        onEnd={() => send(() => acts.onEnd(brake, brake.action))}
      />
      <strong>{autostopSummary(brake, now_s, trans)}</strong>
      {brake.is_warning && (
        <div className="jp-tpu-Announcer" role="alert">
          {messages.endsSoon(brake.node_id, trans)}
        </div>
      )}
      {brake.reason && <div className="jp-tpu-Muted">{brake.reason}</div>}
      {kept && <div>{kept}</div>}
      {brake.guard.state === 'cannot' && (
        <div className="jp-tpu-Complaint">{messages.needsServer(brake.guard.detail, trans)}</div>
      )}
      <KeepButtons
        brake={brake}
        isKept={Boolean(kept)}
        isBusy={isSending}
        now_s={now_s}
        trans={trans}
        onKeep={keep => send(() => acts.onKeep(brake, keep))}
      />
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      <More
        brake={brake}
        isSpot={node.spot}
        recovery={recovery}
        acts={acts}
        past={past}
        news={parts.brakes.dated}
        trans={trans}
        {...busy}
      />
    </div>
  );
}

interface IPartProps extends Pick<IProps, 'acts' | 'trans'> {
  brake: IBrake;
  isBusy: boolean;
  send: (act: () => Promise<unknown>) => void;
}

interface IMoreProps extends IPartProps, Pick<IProps, 'past'> {
  news: unknown;
  isSpot: boolean;
  recovery: IRecovery | undefined;
}

function More(props: IMoreProps): JSX.Element {
  const { brake, isSpot, recovery, isBusy, send, acts, past, news, trans } = props;
  const [isAsking, setAsking] = useState(false);
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="jp-tpu-Raw" onToggle={event => setOpen(isOwnToggle(event, isOpen))}>
      <summary>{messages.activityAndSettings(trans)}</summary>
      <dl className="jp-tpu-Details jp-tpu-Stack">
        {brake.sources.map(source => (
          <React.Fragment key={source.source}>
            <dt>{sourceName(source.source, trans)}</dt>
            <dd title={source.detail}>
              {sourceState(source, brake.sources, trans)}
              {source.detail && <span className="jp-tpu-Muted"> · {source.detail}</span>}
            </dd>
          </React.Fragment>
        ))}
        <dt>{messages.guard(trans)}</dt>
        <dd>
          {guardState(brake.guard.state, trans)}
          {brake.guard.detail && <span className="jp-tpu-Muted"> · {brake.guard.detail}</span>}
        </dd>
      </dl>
      {isOpen && past && <IdlePast node={brake} past={past} news={news} trans={trans} />}
      <Again {...{ brake, isSpot, recovery, isBusy, send, acts, trans }} />
      {isAsking ? (
        <BrakesForm
          brake={brake}
          trans={trans}
          onSet={change => acts.onSetBrakes(brake, change)}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button
            aria-label={messages.changeOf(brake.node_id, trans)}
            onClick={() => setAsking(true)}
          >
            {messages.change(trans)}
          </Button>
        </div>
      )}
    </details>
  );
}

/** React tells a parent of what opens within it, too. */
function isOwnToggle(event: React.SyntheticEvent<HTMLDetailsElement>, isOpen: boolean): boolean {
  return event.target === event.currentTarget ? event.currentTarget.open : isOpen;
}

/** The standing choice for a node that is taken back. */
function Again(props: Omit<IMoreProps, 'past' | 'news'>): JSX.Element | null {
  const { brake, isSpot, recovery, isBusy, send, acts, trans } = props;
  if (!isSpot && !recovery) {
    return null;
  }
  return (
    <>
      <Check
        label={common.recreate(trans)}
        checked={recovery?.is_on ?? false}
        isDisabled={isBusy}
        onChange={is_on => send(() => acts.onSetRecovery(brake, is_on))}
      />
      {recovery?.message && <div className="jp-tpu-Muted">{recovery.message}</div>}
    </>
  );
}
