import { ISpend } from '../api.generated';

/** Whether anything is billed now, at a known price or not. */
export function isBilled({ usd_per_hour }: ISpend): boolean {
  return usd_per_hour === null || usd_per_hour > 0;
}

/** Whether a node is READY, at a price or covered by a grant. */
export function isRunning(spend: ISpend): boolean {
  return isBilled(spend) || spend.nodes.some(({ is_open }) => is_open);
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

/** How much of the fullest budget is used, in whole percent; null without a budget. */
export function budgetPercent({ budgets }: ISpend): number | null {
  const fractions = budgets.flatMap(({ fraction }) => (fraction === null ? [] : [fraction]));
  return fractions.length > 0 ? Math.round(100 * Math.max(...fractions)) : null;
}
