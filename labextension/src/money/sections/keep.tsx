/** Keeping a node longer: in its row of the panel, and in the notebooks that run on it. */

import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { Button } from '../../components/button';
import { useNow } from '../../components/now';
import { nextMoment, onServer, suggestTime } from '../moments';
import { IBrake, IKeep } from '../records';
import { formatSpan } from '../words';

const HOUR_S = 3600;

interface IProps {
  brake: IBrake;
  /** Whether there is something to take back. */
  isKept: boolean;
  isBusy: boolean;
  /** The server's time. */
  now_s: number;
  trans: TranslationBundle;
  onKeep: (keep: IKeep) => void;
}

/** An hour more, until a time, or as long as a cell runs. */
export function KeepButtons(props: IProps): JSX.Element {
  const { brake, isKept, isBusy, trans, onKeep } = props;
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
          kind={brake.is_warning ? 'accept' : 'plain'}
          aria-label={trans.__('Keep %1 for 1 h', brake.node_id)}
          onClick={() => onKeep({ for_s: HOUR_S })}
        >
          {trans.__('Keep 1 h')}
        </Button>
        <Button
          ref={opener}
          isOff={isBusy}
          aria-expanded={isAsking}
          aria-label={trans.__('Keep %1 until a time', brake.node_id)}
          onClick={() => setAsking(!isAsking)}
        >
          {trans.__('Until…')}
        </Button>
        {runsCell(brake) && !brake.kept_while_busy && (
          <Button
            isOff={isBusy}
            aria-label={trans.__('Keep %1 until this cell ends', brake.node_id)}
            onClick={() => onKeep({ while_busy: true })}
          >
            {trans.__('Until this cell ends')}
          </Button>
        )}
        {isKept && (
          <Button
            isOff={isBusy}
            aria-label={trans.__('Cancel “keep running” for %1', brake.node_id)}
            onClick={() => onKeep({})}
          >
            {trans.__('Cancel')}
          </Button>
        )}
      </div>
      {isAsking && <UntilForm {...props} onClose={close} />}
    </>
  );
}

function runsCell({ sources }: IBrake): boolean {
  return sources.some(({ source, state }) => source === 'execution' && state === 'active');
}

/** Asks for a clock time: of today, or of tomorrow where it has passed. */
function UntilForm(props: IProps & { onClose: () => void }): JSX.Element {
  const { brake, isBusy, now_s, trans, onKeep, onClose } = props;
  const id = useId();
  const now_ms = useNow();
  const [time, setTime] = useState(() => suggestTime(new Date(now_ms)));
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const moment = nextMoment(time, new Date(now_ms));
  const until = moment && onServer(moment, now_ms, now_s);
  const note = until ? trans.__('in %1', formatSpan(until - now_s, trans)) : trans.__('Say when.');
  return (
    <form
      className="jp-tpu-Until"
      aria-label={trans.__('Keep %1 until', brake.node_id)}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (until && !isBusy) {
          onKeep({ until });
          onClose();
        }
      }}
    >
      <label htmlFor={id}>{trans.__('Keep until')}</label>
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
        {trans.__('Keep')}
      </Button>
      <Button onClick={onClose}>{trans.__('Cancel')}</Button>
    </form>
  );
}
