/** The request that would set an existing budget again; pure. */

import { IBudget, INewBudget } from '../api.generated';

/** The terms of a budget; null if it cannot be read. */
export function budgetTermsOf(budget: IBudget): INewBudget | null {
  const { amount, unit, period, resets_on, resets_at, action } = budget;
  if (amount === null || unit === null || period === null) {
    return null;
  }
  return {
    ...{ amount, unit, period },
    ...(action ? { action } : {}),
    ...(period === 'week' && resets_on ? { resets_on: resets_on as INewBudget['resets_on'] } : {}),
    ...(period !== 'total' && resets_at ? { resets_at } : {})
  };
}
