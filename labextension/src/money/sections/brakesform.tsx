import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { Button } from '../../components/button';
import { Select } from '../../components/field';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
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
      <h4 id={heading}>{trans.__('When %1 ends', brake.node_id)}</h4>
      <Text
        label={trans.__('After being idle for (minutes)')}
        value={idle}
        note={trans.__('Empty: never because of idleness')}
        complaint={isSpan(idle) ? '' : trans.__('Use a number above 0.')}
        onChange={setIdle}
      />
      <Text
        label={trans.__('After a silent cell ran with idle chips and nobody connected for (hours)')}
        value={unattended}
        note={trans.__('Empty: a running cell is never idle')}
        complaint={isSpan(unattended) ? '' : trans.__('Use a number above 0.')}
        onChange={setUnattended}
      />
      <Text
        label={trans.__('Longest session (hours)')}
        value={session}
        note={trans.__('Empty: no longest session')}
        complaint={isSpan(session) ? '' : trans.__('Use a number above 0.')}
        onChange={setSession}
      />
      <Select
        label={trans.__('Then')}
        value={action}
        onChange={value => setAction(value as IBrake['action'])}
      >
        <option value="delete">{trans.__('delete it')}</option>
        <option value="stop">{trans.__('stop it and keep its disk')}</option>
      </Select>
      {problem && <Problem problem={problem} trans={trans} />}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onClose}>{trans.__('Cancel')}</Button>
        <Button kind="accept" type="submit" disabled={isSending || isWrong}>
          {trans.__('Set')}
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
