import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { IAutostopRules, INodeAutostop } from '../api.generated';
import { Button } from '../components/button';
import { Select, TextField } from '../components/field';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as messages from '../messages/autostop';
import * as common from '../messages/common';

const MINUTE_S = 60;
const HOUR_S = 3600;

interface IProps {
  autostop: INodeAutostop;
  trans: TranslationBundle;
  onSet: (change: IAutostopRules) => Promise<void>;
  onClose: () => void;
}

/** The form for a node's auto-stop rules. */
export function AutostopForm({ autostop, trans, onSet, onClose }: IProps): JSX.Element {
  const heading = useId();
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector('input')?.focus(), []);
  useEffect(() => {
    const own = form.current;
    const listen = ({ key }: KeyboardEvent): void => {
      if (key === 'Escape') {
        onClose();
      }
    };
    own?.addEventListener('keydown', listen);
    return () => own?.removeEventListener('keydown', listen);
  });
  const [idle, setIdle] = useState(inUnits(autostop.idle_after_s, MINUTE_S));
  const [unattended, setUnattended] = useState(inUnits(autostop.unattended_after_s, HOUR_S));
  const [session, setSession] = useState(inUnits(autostop.session_s, HOUR_S));
  const [action, setAction] = useState(autostop.action);
  const { isSending, problem, send } = useRequest();
  const isWrong = !isSpan(idle) || !isSpan(unattended) || !isSpan(session);
  const change = {
    idle_after_s: inSeconds(idle, MINUTE_S),
    unattended_after_s: inSeconds(unattended, HOUR_S),
    session_s: inSeconds(session, HOUR_S),
    action
  };
  return (
    <form
      ref={form}
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
      <h3 id={heading}>{messages.settingsOf(autostop.node_id, trans)}</h3>
      <TextField
        label={messages.idleTimeout(trans)}
        value={idle}
        note={messages.noIdleTimeout(trans)}
        error={isSpan(idle) ? '' : common.useNumberAboveZero(trans)}
        onChange={setIdle}
      />
      <TextField
        label={messages.runningCellIdleAfter(trans)}
        value={unattended}
        note={messages.runningCellNeverIdle(trans)}
        error={isSpan(unattended) ? '' : common.useNumberAboveZero(trans)}
        onChange={setUnattended}
      />
      <TextField
        label={messages.maximumSession(trans)}
        value={session}
        note={messages.noMaximumSession(trans)}
        error={isSpan(session) ? '' : common.useNumberAboveZero(trans)}
        onChange={setSession}
      />
      <Select
        label={messages.then(trans)}
        value={action}
        onChange={value => setAction(value as INodeAutostop['action'])}
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
