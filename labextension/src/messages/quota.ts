/** Quota. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IQuotaLimit } from '../api.generated';
import { quotaAmount } from './units';

export function title(trans: TranslationBundle): string {
  return trans.__('Quota');
}

export function showAll(count: number, trans: TranslationBundle): string {
  return trans.__('Show all %1 limits', count);
}

export function unusedIn(count: number, zone: string, trans: TranslationBundle): string {
  return trans._n('%1 unused limit in %2', '%1 unused limits in %2', count, zone);
}

export function none(trans: TranslationBundle): string {
  return trans.__('No quota in use.');
}

export function limits(trans: TranslationBundle): string {
  return trans.__('Quota limits');
}

export function onlyUsesQuota(trans: TranslationBundle): string {
  return trans.__('This resource is not billed, but it uses quota.');
}

export function deleteToFree(name: string, trans: TranslationBundle): string {
  return trans.__('Delete %1 to free its quota', name);
}

/** Where a limit applies: a region and one of its zones may both have a limit of the same name. */
export function place({ scope, location }: IQuotaLimit, trans: TranslationBundle): string {
  return scope === 'region' ? trans.__('%1 (region)', location) : location;
}

export function quotaUse(quota: IQuotaLimit, trans: TranslationBundle): string {
  const { used, limit, unit } = quota;
  if (quota.is_unlimited) {
    return trans.__('%1 in use; no limit', quotaAmount(used, unit, trans));
  }
  return limit === null
    ? trans.__('%1 in use; limit unknown', quotaAmount(used, unit, trans))
    : trans.__('%1 of %2 in use', used, quotaAmount(limit, unit, trans));
}
