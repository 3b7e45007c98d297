import { TranslationBundle } from '@jupyterlab/translation';
import { useId, useState } from 'react';
import { Button } from '../../components/button';
import { Select } from '../../components/field';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import * as messages from '../../messages/autostop';
import * as common from '../../messages/common';
import { IBrake, IBrakeTerms } from '../records';
import { Text } from './budgetform';

const MINUTE_S = 60;
const HOUR_S = 3600;

interface IProps {
  brake: IBrake;
  trans: TranslationBundle;
  onSet: (change: IBrakeTerms) => Promise<void>;
  onClose: () => void;
}

/** Asks when a node ends by itself. */
export function BrakesForm({ brake, trans, onSet, onClose }: IProps): JSX.Element {
  const heading = useId();
  const [idle, setIdle] = useState(inUnits(brake.idle_after_s, MINUTE_S));
  const [unattended, setUnattended] = useState(inUnits(brake.unattended_after_s, HOUR_S));
  const [session, setSession] = useState(inUnits(brake.session_s, HOUR_S));
  const [action, setAction] = useState(brake.action);
  const { isSending, problem, send } = useSending();
  const isWrong = !isSpan(idle) || !isSpan(unattended) || !isSpan(session);
  const change = {
    idle_after_s: inSeconds(idle, MINUTE_S),
    unattended_after_s: inSeconds(unattended, HOUR_S),
    session_s: inSeconds(session, HOUR_S),
    action
  };
  return (
    <form
      className="jp-tpu-Form jp-mod-inner"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!isWrong) {
          send(async () => {
            await onSet(change);
            onClose();
          });
        }
      }}
    >
      <h4 id={heading}>{messages.settingsOf(brake.node_id, trans)}</h4>
      <Text
        label={messages.idleTimeout(trans)}
        value={idle}
        note={messages.noIdleTimeout(trans)}
        complaint={isSpan(idle) ? '' : common.useNumberAboveZero(trans)}
        onChange={setIdle}
      />
      <Text
        label={messages.runningCellIdleAfter(trans)}
        value={unattended}
        note={messages.runningCellNeverIdle(trans)}
        complaint={isSpan(unattended) ? '' : common.useNumberAboveZero(trans)}
        onChange={setUnattended}
      />
      <Text
        label={messages.maximumSession(trans)}
        value={session}
        note={messages.noMaximumSession(trans)}
        complaint={isSpan(session) ? '' : common.useNumberAboveZero(trans)}
        onChange={setSession}
      />
      <Select
        label={messages.then(trans)}
        value={action}
        onChange={value => setAction(value as IBrake['action'])}
      >
        <option value="delete">{messages.deleteNode(trans)}</option>
        <option value="stop">{messages.stopNode(trans)}</option>
      </Select>
      {problem && <Problem problem={problem} trans={trans} />}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onClose}>{common.cancel(trans)}</Button>
        <Button kind="accept" type="submit" disabled={isSending || isWrong}>
          {messages.save(trans)}
        </Button>
      </div>
    </form>
  );
}

function isSpan(text: string): boolean {
  return text.trim() === '' || (Number(text) > 0 && Number.isFinite(Number(text)));
}

function inUnits(seconds: number | null, unit: number): string {
  return seconds === null ? '' : String(Number((seconds / unit).toFixed(2)));
}

function inSeconds(text: string, unit: number): number | null {
  return text.trim() === '' ? null : Number(text) * unit;
}
