/** Numbers, prices and states; pure. */

import { IOffer, IPrice, Provisioning } from './api.generated';

/** What a state means for its icon and colour; the text is the API's own. */
export type StateKind = 'ready' | 'working' | 'stopped' | 'lost' | 'unknown';

const KINDS = new Map<string, StateKind>([
  ['CREATING', 'working'],
  ['READY', 'ready'],
  ['RESTARTING', 'working'],
  ['REIMAGING', 'working'],
  ['DELETING', 'working'],
  ['REPAIRING', 'working'],
  ['STOPPED', 'stopped'],
  ['STOPPING', 'working'],
  ['STARTING', 'working'],
  ['PREEMPTED', 'lost'],
  ['TERMINATED', 'lost'],
  ['HIDING', 'working'],
  ['HIDDEN', 'stopped'],
  ['UNHIDING', 'working'],
  // of queued resources
  ['ACCEPTED', 'working'],
  ['PROVISIONING', 'working'],
  ['WAITING_FOR_RESOURCES', 'working'],
  ['ACTIVE', 'ready'],
  ['SUSPENDING', 'working'],
  ['SUSPENDED', 'lost'],
  ['FAILED', 'lost']
]);

export function stateKind(state: string): StateKind {
  return KINDS.get(state) ?? 'unknown';
}

/** Dollars with cents; an amount below one cent is not shown as zero. */
export function formatUsd(usd: number): string {
  if (usd > 0 && usd < 0.01) {
    return '<$0.01';
  }
  const dollars = usd.toLocaleString('en-US', {
    minimumFractionDigits: 2,
    maximumFractionDigits: 2
  });
  return `$${dollars}`;
}

/** The price of an offer as a record; null without a list price. */
export function priceOf(offer: IOffer, provisioning: Provisioning): IPrice | null {
  const prices: { readonly [terms in Provisioning]: number | null | undefined } = {
    'on-demand': offer.usd_per_hour,
    spot: offer.usd_per_hour_spot,
    preemptible: offer.usd_per_hour_spot,
    'flex-start': offer.usd_per_hour_flex_start,
    reserved: null
  };
  const usd_per_hour = prices[provisioning] ?? null;
  if (usd_per_hour === null) {
    return null;
  }
  return { usd_per_hour, as_of: offer.price_as_of ?? '', source: offer.price_source ?? '' };
}
