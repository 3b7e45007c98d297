/** The history of a node as lines of a chart; pure. */

import { IMetrics, IWorkerMetrics } from '../api.generated';
import { known, mean, percentOf, samplesOf, totalsOf } from './totals';

/** Lines with common times, in percent; null where nothing was measured. */
export interface ISeries {
  /** Seconds since the epoch by the server's clock, ascending. */
  readonly at: readonly number[];
  readonly duty: readonly (number | null)[];
  readonly busiest: readonly (number | null)[];
  readonly hbm: readonly (number | null)[];
  readonly cpu: readonly (number | null)[];
}

export type Line = Exclude<keyof ISeries, 'at'>;

export const LINES: readonly Line[] = ['duty', 'busiest', 'hbm', 'cpu'];

export const NO_SERIES: ISeries = { at: [], duty: [], busiest: [], hbm: [], cpu: [] };

type Point = { readonly [line in Line]: number | null };

/** The history of all workers, averaged in steps of `step_s`. */
export function seriesOf({ workers }: IMetrics, step_s: number): ISeries {
  const steps = new Map<number, Point[]>();
  for (const worker of workers) {
    for (const [at, point] of pointsOf(worker)) {
      const step = Math.floor(at / step_s);
      const points = steps.get(step);
      if (points) {
        points.push(point);
      } else {
        steps.set(step, [point]);
      }
    }
  }
  const rising = [...steps].sort(([left], [right]) => left - right);
  return asSeries(rising.map(([step, points]) => [step * step_s, merged(points)]));
}

/** Append the current values and drop those older than `keep_s`. */
export function appendCurrent(
  series: ISeries,
  metrics: IMetrics,
  now_s: number,
  keep_s: number
): ISeries {
  const last = series.at[series.at.length - 1] ?? -Infinity;
  if (now_s <= last) {
    return series;
  }
  const first = series.at.findIndex(at => at >= now_s - keep_s);
  const point = currentPoint(metrics);
  const kept = <T>(values: readonly T[], value: T): T[] => [
    ...(first < 0 ? [] : values.slice(first)),
    value
  ];
  return {
    at: kept(series.at, now_s),
    duty: kept(series.duty, point.duty),
    busiest: kept(series.busiest, point.busiest),
    hbm: kept(series.hbm, point.hbm),
    cpu: kept(series.cpu, point.cpu)
  };
}

/** The last `span_s` seconds of a series. */
export function tail(series: ISeries, span_s: number): ISeries {
  const end = series.at[series.at.length - 1] ?? 0;
  const first = series.at.findIndex(at => at >= end - span_s);
  const cut = <T>(values: readonly T[]): readonly T[] => values.slice(Math.max(0, first));
  return {
    at: cut(series.at),
    duty: cut(series.duty),
    busiest: cut(series.busiest),
    hbm: cut(series.hbm),
    cpu: cut(series.cpu)
  };
}

/** Minimum, mean, maximum and last value of a line; null if nothing is known. */
export function rangeOf(
  values: readonly (number | null)[]
): { min: number; mean: number; max: number; last: number | null } | null {
  const all = known(values);
  const middle = mean(all);
  return middle === null
    ? null
    : {
        min: Math.min(...all),
        mean: middle,
        max: Math.max(...all),
        last: values[values.length - 1] ?? null
      };
}

function currentPoint(metrics: IMetrics): Point {
  const fresh = metrics.workers.filter(({ error }) => error === null);
  const totals = totalsOf(samplesOf({ ...metrics, workers: fresh }));
  return {
    duty: totals.duty_percent,
    busiest: totals.busiest_percent,
    hbm: percentOf(totals.hbm_used_bytes, totals.hbm_total_bytes),
    cpu: totals.cpu_percent
  };
}

/** Convert the times to the server's clock, because the worker's clock may be wrong. */
function pointsOf({ sample, history, as_of }: IWorkerMetrics): [number, Point][] {
  if (!history) {
    return [];
  }
  const ahead_s = sample && as_of !== null ? as_of - sample.at : 0;
  const hbmTotals = new Map(
    (sample?.cores ?? []).map(({ core, hbm_total_bytes }) => [String(core), hbm_total_bytes])
  );
  const columns = {
    duty: Object.values(history.duty_percent),
    hbm: Object.entries(history.hbm_used_bytes).map(
      ([core, used]) => [used, hbmTotals.get(core) ?? null] as const
    ),
    cpu: history.cpu_percent
  };
  return history.at.map((at, index) => [at + ahead_s, pointAt(columns, index)]);
}

/** The history of a worker in columns; HBM with its size. */
interface IColumns {
  readonly duty: readonly Column[];
  readonly hbm: readonly (readonly [used: Column, total: number | null])[];
  readonly cpu: Column;
}

type Column = readonly (number | null)[];

function pointAt(columns: IColumns, index: number): Point {
  const duties = known(columns.duty.map(column => column[index]));
  const hbm = columns.hbm.map(([used, total]) => percentOf(used[index] ?? null, total));
  return {
    duty: mean(duties),
    busiest: duties.length > 0 ? Math.max(...duties) : null,
    hbm: mean(known(hbm)),
    cpu: columns.cpu[index] ?? null
  };
}

function merged(points: readonly Point[]): Point {
  const busiest = known(points.map(point => point.busiest));
  return {
    duty: mean(known(points.map(({ duty }) => duty))),
    busiest: busiest.length > 0 ? Math.max(...busiest) : null,
    hbm: mean(known(points.map(({ hbm }) => hbm))),
    cpu: mean(known(points.map(({ cpu }) => cpu)))
  };
}

function asSeries(points: readonly (readonly [number, Point])[]): ISeries {
  const line = (name: Line): (number | null)[] => points.map(([, point]) => point[name]);
  return {
    at: points.map(([at]) => at),
    duty: line('duty'),
    busiest: line('busiest'),
    hbm: line('hbm'),
    cpu: line('cpu')
  };
}
