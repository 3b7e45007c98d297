import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useState } from 'react';
import { Button } from '../../components/button';
import { Select } from '../../components/field';
import * as messages from '../../messages/simulator';
import { formatMoment } from '../faults';
import { ICardProps } from '../page';
import { IDatedCloud, timeAt } from '../records';
import { Card } from './card';

const SCALES = [1, 10, 60, 600, 3600];

/** The emulated clock: speed, pause, and jumps. */
export function ClockCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  const { scale, paused } = cloud.clock;
  return (
    <Card title={messages.clock(trans)}>
      <Time cloud={cloud} trans={trans} />
      <Select
        label={messages.speed(trans)}
        value={String(scale)}
        onChange={value => actions.onSetClock({ scale: Number(value) })}
      >
        {[...new Set([...SCALES, scale])].sort(byValue).map(one => (
          <option key={one} value={String(one)}>
            {messages.timesRealTime(one, trans)}
          </option>
        ))}
      </Select>
      <div className="jp-tpu-Actions">
        <Button
          kind={paused ? 'accept' : 'plain'}
          onClick={() => actions.onSetClock({ paused: !paused })}
        >
          {paused ? messages.resume(trans) : messages.pause(trans)}
        </Button>
        {steps(trans).map(([label, advance_s]) => (
          <Button key={label} onClick={() => actions.onSetClock({ advance_s })}>
            {label}
          </Button>
        ))}
      </div>
    </Card>
  );
}

function steps(trans: TranslationBundle): readonly [string, number][] {
  return [
    [messages.plusMinute(trans), 60],
    [messages.plusHour(trans), 3600],
    [messages.plusDay(trans), 86_400]
  ];
}

function byValue(left: number, right: number): number {
  return left - right;
}

function Time({ cloud, trans }: { cloud: IDatedCloud; trans: TranslationBundle }): JSX.Element {
  const isPaused = cloud.clock.paused;
  const now = useNow(!isPaused);
  return (
    <div className="jp-tpu-Time">
      <time>{formatMoment(timeAt(cloud, now))}</time>
      {isPaused && <span className="jp-tpu-Badge">{messages.paused(trans)}</span>}
    </div>
  );
}

/** The browser's time in ms, updated each second while `isCounting`. */
function useNow(isCounting: boolean): number {
  const [, setNow] = useState(0);
  useEffect(() => {
    const timer = isCounting ? window.setInterval(() => setNow(Date.now()), 1000) : 0;
    return () => window.clearInterval(timer);
  }, [isCounting]);
  return Date.now();
}
