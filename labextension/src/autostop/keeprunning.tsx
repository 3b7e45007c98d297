/** Buttons that keep a node running, in its row and in its notebooks. */

import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { IKeepRunning, INodeAutostop } from '../api.generated';
import { Button } from '../components/button';
import { useNow } from '../components/now';
import * as messages from '../messages/autostop';
import * as common from '../messages/common';
import { formatDuration } from '../messages/units';
import { nextMoment, onServer, suggestTime } from '../money/moments';

const HOUR_S = 3600;

interface IProps {
  autostop: INodeAutostop;
  /** Whether there is an extension that can be cancelled. */
  isKept: boolean;
  isBusy: boolean;
  /** The server's time in seconds. */
  now_s: number;
  trans: TranslationBundle;
  onKeepRunning: (request: IKeepRunning) => void;
  /** Additional buttons. */
  children?: React.ReactNode;
}

/** Buttons that keep the node running: for one hour, until a time, or until the current cell ends. */
export function KeepRunningButtons(props: IProps): JSX.Element {
  const { autostop, isKept, isBusy, trans, onKeepRunning } = props;
  const [isAsking, setAsking] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setAsking(false);
    opener.current?.focus();
  };
  return (
    <>
      <div className="jp-tpu-Actions">
        <Button
          isOff={isBusy}
          kind={autostop.is_warning ? 'accept' : 'plain'}
          aria-label={messages.keepOneHourOf(autostop.node_id, trans)}
          onClick={() => onKeepRunning({ for_s: HOUR_S })}
        >
          {messages.keepOneHour(trans)}
        </Button>
        <Button
          ref={opener}
          isOff={isBusy}
          aria-expanded={isAsking}
          aria-label={messages.keepUntilTimeOf(autostop.node_id, trans)}
          onClick={() => setAsking(!isAsking)}
        >
          {messages.untilEllipsis(trans)}
        </Button>
        {runsCell(autostop) && !autostop.kept_while_busy && (
          <Button
            isOff={isBusy}
            aria-label={messages.keepUntilCellEndsOf(autostop.node_id, trans)}
            onClick={() => onKeepRunning({ while_busy: true })}
          >
            {messages.untilCellEnds(trans)}
          </Button>
        )}
        {isKept && (
          <Button
            isOff={isBusy}
            aria-label={messages.cancelKeepOf(autostop.node_id, trans)}
            onClick={() => onKeepRunning({})}
          >
            {messages.cancelKeep(trans)}
          </Button>
        )}
        {props.children}
      </div>
      {isAsking && <UntilForm {...props} onClose={close} />}
    </>
  );
}

function runsCell({ sources }: INodeAutostop): boolean {
  return sources.some(({ source, state }) => source === 'execution' && state === 'active');
}

/** A form for a time of day: today or, if that time has passed, tomorrow. */
function UntilForm(props: IProps & { onClose: () => void }): JSX.Element {
  const { autostop, isBusy, now_s, trans, onKeepRunning, onClose } = props;
  const id = useId();
  const now_ms = useNow();
  const [time, setTime] = useState(() => suggestTime(new Date(now_ms)));
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const moment = nextMoment(time, new Date(now_ms));
  const until = moment && onServer(moment, now_ms, now_s);
  const note = until
    ? messages.inTime(formatDuration(until - now_s, trans), trans)
    : messages.enterTime(trans);
  return (
    <form
      className="jp-tpu-Until"
      aria-label={messages.keepUntilOf(autostop.node_id, trans)}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (until && !isBusy) {
          onKeepRunning({ until });
          onClose();
        }
      }}
    >
      <label htmlFor={id}>{messages.keepUntil(trans)}</label>
      <input
        id={id}
        ref={input}
        className="jp-mod-styled"
        type="time"
        value={time}
        aria-describedby={`${id}-note`}
        onChange={event => setTime(event.target.value)}
        onKeyDown={event => event.key === 'Escape' && onClose()}
      />
      <span id={`${id}-note`} className="jp-tpu-Muted">
        {note}
      </span>
      <Button kind="accept" type="submit" disabled={!until}>
        {messages.keepRunning(trans)}
      </Button>
      <Button onClick={onClose}>{common.cancel(trans)}</Button>
    </form>
  );
}
