/** Convert a node's last hour to the data of a chart; pure. */

import { IActivityInterval, IAutostopHistory } from '../api.generated';

/** Length of the history that agents keep, in seconds. */
export const HOUR_S = 3600;

/** Intervals of activity, and the elapsed part of the idle timeout. */
export interface IActivityData {
  readonly now: number;
  readonly stretches: readonly IActivityInterval[];
  /** Whether there is an idle timeout; without one, `level` is not drawn. */
  readonly hasRule: boolean;
  readonly at: readonly number[];
  /** Elapsed part of the idle timeout in percent; null if unknown. */
  readonly level: readonly (number | null)[];
}

export function activityData({ now, idle_after_s, stretches }: IAutostopHistory): IActivityData {
  const points = stretches.flatMap((stretch, index): [number, number | null][] => {
    const ends: [number, number | null][] = [stretch.starts_at, stretch.ends_at].map(at => [
      at,
      levelAt(stretch, at, idle_after_s)
    ]);
    const next = stretches[index + 1];
    return next && next.starts_at > stretch.ends_at ? [...ends, [stretch.ends_at, null]] : ends;
  });
  return {
    now,
    stretches,
    hasRule: idle_after_s !== null,
    at: points.map(([at]) => at),
    level: points.map(([, level]) => level)
  };
}

function levelAt(
  stretch: IActivityInterval,
  at: number,
  idle_after_s: number | null
): number | null {
  const { verdict, quiet_since } = stretch;
  if (
    idle_after_s === null ||
    verdict === 'unknown' ||
    (verdict === 'idle' && quiet_since === null)
  ) {
    return null;
  }
  const idle_s = verdict === 'idle' ? at - (quiet_since ?? at) : 0;
  return Math.min(100, (100 * Math.max(0, idle_s)) / idle_after_s);
}
