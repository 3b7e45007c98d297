/** Money over time in words and as the numbers of a chart; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { formatUsd } from '../../format';
import { clockTime } from '../moments';
import { IBudgetCourse, ISlot, ISpendHistory, ISpent, PastChoice } from '../pastrecords';
import { IBudget } from '../records';
import { formatAmount, formatSpan, formatSum } from '../words';

/** Bars, one for each hour or day. */
export interface IBars {
  readonly labels: readonly string[];
  readonly known: readonly number[];
  /** Where nobody looked for some of the time; null elsewhere. */
  readonly upTo: readonly (number | null)[];
  /** Where something was READY whose price is not known. */
  readonly isUnpriced: readonly boolean[];
}

/** How a budget came to be used, its cap, and where that leads. */
export interface ICurve {
  readonly at: readonly number[];
  readonly watched: readonly number[];
  /** Null where all was watched. */
  readonly used: readonly number[] | null;
  readonly cap: number;
  readonly unit: 'usd' | 'hours';
  /** Where the chart ends: with the window, where that ends. */
  readonly ends_at: number;
  /** When it runs out at the present rate, if that is within the window. */
  readonly runs_out_at: number | null;
}

export function slotName(slot: ISlot, by: ISpendHistory['by']): string {
  if (by === 'hour') {
    return clockTime(slot.starts_at);
  }
  const [year, month, day] = slot.day.split('-').map(Number);
  return new Date(year, month - 1, day).toLocaleDateString(undefined, {
    month: 'short',
    day: 'numeric'
  });
}

export function barsOf({ by, slots }: ISpendHistory): IBars {
  return {
    labels: slots.map(slot => slotName(slot, by)),
    known: slots.map(({ known_usd }) => known_usd),
    upTo: slots.map(slot => (isUpTo(slot) ? slot.up_to_usd : null)),
    isUnpriced: slots.map(({ unpriced_s }) => unpriced_s > 0)
  };
}

/** Null for a budget that cannot be read. */
export function curveOf({ budget, points, now }: IBudgetCourse): ICurve | null {
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

/** When it runs out, unless that is so far away that the past would be squeezed. */
function nearEnd({ runs_out_at, window_end }: IBudget, past_s: number, now: number): number | null {
  const isNear = runs_out_at !== null && (window_end !== null || runs_out_at - now <= past_s);
  return isNear && runs_out_at > now ? runs_out_at : null;
}

export function isUpTo({ unwatched_s, up_to_usd, known_usd }: ISpent): boolean {
  return unwatched_s > 0 && up_to_usd > known_usd;
}

/** What was spent and for how long nodes were READY, with what is not known of it. */
export function formatSpent(spent: ISpent, trans: TranslationBundle): string {
  const text = formatCost(spent, trans);
  return spent.ready_s > 0 ? `${text} · ${formatSpan(spent.ready_s, trans)}` : text;
}

/** What was spent, with what is not known of it. */
export function formatCost(spent: ISpent, trans: TranslationBundle): string {
  const text = formatSum({ ...spent, ready_s: 0 }, trans);
  return isUpTo(spent) ? trans.__('%1, up to %2', text, formatUsd(spent.up_to_usd)) : text;
}

/** Whether there is anything to say of it. */
export function isUsed({ ready_s, unwatched_s }: ISpent): boolean {
  return ready_s > 0 || unwatched_s > 0;
}

export function choiceName(choice: PastChoice, trans: TranslationBundle): string {
  if ('budget' in choice) {
    return trans.__('Budget %1', choice.budget);
  }
  return choice.by === 'hour' ? trans.__('%1 h', choice.last) : trans.__('%1 d', choice.last);
}

/** What a chart is of. */
export function titleOf(choice: PastChoice, trans: TranslationBundle): string {
  if ('budget' in choice) {
    return trans.__('How the budget %1 came to be used', choice.budget);
  }
  return choice.by === 'hour'
    ? trans.__('Spent in each of the last %1 hours', choice.last)
    : trans.__('Spent on each of the last %1 days', choice.last);
}

/** A chart of bars for those who cannot see it. */
export function historyInWords(history: ISpendHistory, trans: TranslationBundle): string {
  const sum = trans.__('In all %1.', formatSpent(history.sum, trans));
  const most = [...history.slots].sort((left, right) => right.known_usd - left.known_usd)[0];
  return most && most.known_usd > 0
    ? trans.__('%1 Most: %2 at %3.', sum, formatUsd(most.known_usd), slotName(most, history.by))
    : sum;
}

/** A chart of a budget for those who cannot see it. */
export function courseInWords({ budget, points }: IBudgetCourse, trans: TranslationBundle): string {
  const { amount, unit, used } = budget;
  const last = points[points.length - 1];
  if (amount === null || used === null || !last) {
    return trans.__('How it was used is not known.');
  }
  const halfway = points.find(point => point.used >= last.used / 2) ?? last;
  return trans.__(
    '%1 of %2 now; half of that by %3.',
    formatAmount(used, unit, trans),
    formatAmount(amount, unit, trans),
    new Date(halfway.at * 1000).toLocaleString(undefined, {
      dateStyle: 'medium',
      timeStyle: 'short'
    })
  );
}
