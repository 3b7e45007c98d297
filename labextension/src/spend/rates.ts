import { ISpend } from '../api.generated';

/** Whether something runs up costs now, be its price known or not. */
export function isBilled({ usd_per_hour }: ISpend): boolean {
  return usd_per_hour === null || usd_per_hour > 0;
}

/** Why budgets allow nothing. */
export function budgetErrors({ budgets }: ISpend): readonly string[] {
  return budgets.flatMap(({ error }) => (error ? [error] : []));
}

/** What is known of the rate where some price is not. */
export function knownRate({ nodes }: ISpend): number {
  return nodes
    .filter(({ is_open }) => is_open)
    .reduce((sum, { usd_per_hour }) => sum + (usd_per_hour ?? 0), 0);
}
