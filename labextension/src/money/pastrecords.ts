/**
 * What the server half says of money over time (server/rest-api.yml). Importing this module does nothing.
 *
 * Amounts are US dollars or, of a budget, its unit; moments seconds since the epoch by the server's clock.
 */

import { IBudget } from './records';

/** What was spent in some time. */
export interface ISpent {
  /** Null where the price of a part is unknown. */
  readonly usd: number | null;
  readonly known_usd: number;
  /** The same if nodes were READY all the while that nobody looked. */
  readonly up_to_usd: number;
  readonly ready_s: number;
  readonly unpriced_s: number;
  readonly unwatched_s: number;
}

/** An hour or a day by the server's wall clock. */
export interface ISlot extends ISpent {
  readonly starts_at: number;
  readonly ends_at: number;
  /** `2026-11-22` */
  readonly day: string;
}

export interface ISpendHistory {
  readonly by: 'hour' | 'day';
  readonly now: number;
  /** The oldest first; the last is not over. */
  readonly slots: readonly ISlot[];
  readonly sum: ISpent;
  readonly unpriced: readonly string[];
}

/** How a budget came to be used since its window began. */
export interface IBudgetCourse {
  readonly budget: IBudget;
  readonly now: number;
  readonly points: readonly {
    readonly at: number;
    readonly used: number;
    /** What of it was seen; the rest is at most that. */
    readonly watched: number;
  }[];
  /** Accelerator types without a price; a budget in dollars counts them as the dearest. */
  readonly unpriced: readonly string[];
}

/** What of the past is looked at. */
export type PastChoice =
  { readonly by: 'hour' | 'day'; readonly last: number } | { readonly budget: string };

export type IPastAnswer = ISpendHistory | IBudgetCourse;

/** A time in which nothing changed in what the guard of a node saw. */
export interface IStretch {
  readonly verdict: 'busy' | 'idle' | 'unknown';
  /** Those which were active, or which nobody could read. */
  readonly sources: readonly string[];
  readonly detail: string;
  readonly starts_at: number;
  readonly ends_at: number;
  /** When anything went on last. */
  readonly quiet_since: number | null;
}

/** What the guard of a node saw in the last hour. */
export interface IBrakesPast {
  readonly now: number;
  readonly idle_after_s: number | null;
  /** Why nothing is known; text. */
  readonly why_unknown: string | null;
  /** The oldest first; between two that do not touch, nobody looked. */
  readonly stretches: readonly IStretch[];
}
