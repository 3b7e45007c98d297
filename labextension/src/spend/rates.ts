import { INewBudget, INode, ISpend, ISpendOfTime } from '../api.generated';
import { endsOf, IEnds } from '../fleet';

/** Whether anything is billed now, at a known price or not. */
export function isBilled({ usd_per_hour }: ISpend): boolean {
  return usd_per_hour === null || usd_per_hour > 0;
}

/** Whether nodes are READY, and a grant covers all of them. */
export function isCovered(spend: ISpend): boolean {
  return !isBilled(spend) && spend.nodes.some(({ is_open }) => is_open);
}

/** Whether a node is READY, at a price or covered by a grant. */
export function isRunning(spend: ISpend): boolean {
  return isBilled(spend) || isCovered(spend);
}

/** Why budgets block spending. */
export function budgetErrors({ budgets }: ISpend): readonly string[] {
  return budgets.flatMap(({ error }) => (error ? [error] : []));
}

/** The part of the rate that has known prices. */
export function knownRate({ nodes }: ISpend): number {
  return nodes
    .filter(({ is_open }) => is_open)
    .reduce((sum, { usd_per_hour }) => sum + (usd_per_hour ?? 0), 0);
}

/** The used share of the fullest budget; null without a budget. */
export function budgetShare({ budgets }: ISpend): number | null {
  const fractions = budgets.flatMap(({ fraction }) => (fraction === null ? [] : [fraction]));
  return fractions.length > 0 ? Math.max(...fractions) : null;
}

/** What would count towards a budget before it is set, in its unit. */
export interface IUsedBefore {
  readonly least: number;
  /** Includes unmonitored time, and the time before the period if it begins at an unusual time of day. */
  readonly most: number;
}

const HOUR_S = 3600;
const NEXT_LONGER = { day: 'week', week: 'month', month: 'total', total: 'total' } as const;

export function usedBefore(spend: ISpend, terms: INewBudget): IUsedBefore {
  const { unit, period, resets_on, resets_at } = terms;
  const sums = { day: spend.today, week: spend.week, month: spend.month, total: spend.total };
  const counted = ({ known_usd, ready_s }: ISpendOfTime): number =>
    unit === 'usd' ? known_usd : ready_s / HOUR_S;
  // the sums are those of calendar periods
  const isSum = (resets_at ?? '00:00') === '00:00' && (resets_on ?? 'monday') === 'monday';
  const unwatched = spend.nodes.map(
    ({ unwatched_s, usd_per_hour }) =>
      (unwatched_s / HOUR_S) * (unit === 'usd' ? (usd_per_hour ?? 0) : 1)
  );
  return {
    least: isSum ? counted(sums[period]) : 0,
    most: unwatched.reduce(
      (sum, more) => sum + more,
      counted(sums[isSum ? period : NEXT_LONGER[period]])
    )
  };
}

/** How nodes end when such a budget is used up. */
export function endsAtCap(
  { action, unit }: INewBudget,
  spend: ISpend,
  nodes: readonly INode[]
): IEnds {
  if (action === 'warn') {
    return endsOf([]);
  }
  // a grant covers dollars, not node-hours
  const isSparing = action !== 'stop-all' && unit === 'usd';
  const granted = new Set(
    spend.nodes
      .filter(({ is_open, usd_per_hour }) => is_open && usd_per_hour === 0)
      .map(({ name }) => name)
  );
  return endsOf(isSparing ? nodes.filter(({ name }) => !granted.has(name)) : nodes);
}
