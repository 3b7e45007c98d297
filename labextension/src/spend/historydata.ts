/** Spending over time as numbers of a chart; pure. */

import { IBudget, IBudgetBurnDown, ISpendHistory, ISpendOfSlot } from '../api.generated';
import { clockTime, dateLocale, formatMoment } from '../money/moments';

/** The bars of a chart, one for each hour or day. */
export interface IBars {
  readonly labels: readonly string[];
  readonly known: readonly number[];
  /** Upper bound where some time was unmonitored; null elsewhere. */
  readonly upTo: readonly (number | null)[];
  /** Whether a resource of unknown price was READY. */
  readonly isUnpriced: readonly boolean[];
}

/** The used amount of a budget over time, its cap, and when it runs out. */
export interface ICurve {
  readonly at: readonly number[];
  readonly watched: readonly number[];
  /** Null if all time was monitored. */
  readonly used: readonly number[] | null;
  readonly cap: number;
  readonly unit: 'usd' | 'hours';
  /** End of the chart: the end of the budget's period, if it has one. */
  readonly ends_at: number;
  /** When it runs out at the current rate, if that is within the period. */
  readonly runs_out_at: number | null;
}

export function slotName(
  slot: ISpendOfSlot,
  { by, now }: Pick<ISpendHistory, 'by' | 'now'>
): string {
  if (by === 'hour') {
    return formatMoment(slot.starts_at ?? 0, now);
  }
  const [year, month, day] = (slot.day ?? '').split('-').map(Number);
  return new Date(year, month - 1, day).toLocaleDateString(dateLocale(), {
    month: 'short',
    day: 'numeric'
  });
}

export function barsOf(history: ISpendHistory): IBars {
  const { by, slots } = history;
  return {
    // an axis has no room for both dates and times
    labels: slots.map(slot =>
      by === 'hour' ? clockTime(slot.starts_at ?? 0) : slotName(slot, history)
    ),
    known: slots.map(({ known_usd }) => known_usd),
    upTo: slots.map(slot => (isUpTo(slot) ? slot.up_to_usd : null)),
    isUnpriced: slots.map(({ unpriced_s }) => unpriced_s > 0)
  };
}

/** Null for a budget that can't be read. */
export function curveOf({ budget, points, now }: IBudgetBurnDown): ICurve | null {
  const { amount, unit, unwatched } = budget;
  if (amount === null || unit === null || points.length === 0) {
    return null;
  }
  const runs_out_at = nearEnd(budget, now - points[0].at, now);
  return {
    at: points.map(({ at }) => at),
    watched: points.map(({ watched }) => watched),
    used: unwatched ? points.map(({ used }) => used) : null,
    cap: amount,
    unit,
    ends_at: budget.window_end ?? runs_out_at ?? now,
    runs_out_at
  };
}

/** When the budget runs out, unless that is so far ahead that the past would be squeezed. */
function nearEnd({ runs_out_at, window_end }: IBudget, past_s: number, now: number): number | null {
  const isNear = runs_out_at !== null && (window_end !== null || runs_out_at - now <= past_s);
  return isNear && runs_out_at > now ? runs_out_at : null;
}

export function isUpTo({ unwatched_s, up_to_usd, known_usd }: ISpendOfSlot): boolean {
  return unwatched_s > 0 && up_to_usd > known_usd;
}

/** Whether anything was used. */
export function isUsed({ ready_s, unwatched_s }: ISpendOfSlot): boolean {
  return ready_s > 0 || unwatched_s > 0;
}
