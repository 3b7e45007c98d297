/** Numbers and records as words; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IAccelerator, IOffer, IPrice, Provisioning, Verb } from './tokens';

/** What a state means for the eye; the word beside it is the API's own. */
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

/** Dollars with cents; what is less than a cent is not called nothing. */
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

export function formatAge(seconds: number, trans: TranslationBundle): string {
  if (seconds < 90) {
    return trans.__('%1 s', Math.round(seconds));
  }
  if (seconds < 90 * 60) {
    return trans.__('%1 min', Math.round(seconds / 60));
  }
  return trans.__('%1 h', Math.round(seconds / 3600));
}

/** How big a node is: chips, workers, topology. */
export function formatSize(
  size: Pick<IAccelerator, 'chips' | 'workers' | 'topology'>,
  trans: TranslationBundle
): string {
  const parts = [
    trans._n('%1 chip', '%1 chips', size.chips),
    trans._n('%1 worker', '%1 workers', size.workers)
  ];
  if (size.topology) {
    parts.push(trans.__('topology %1', size.topology));
  }
  return parts.join(' · ');
}

/** The price of an offer as a record, or null where no list price is known. */
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

/** The price of a node in one line, such as "$9.60 per hour". */
export function formatPrice(price: IPrice | null, trans: TranslationBundle): string {
  return price
    ? trans.__('%1 per hour', formatUsd(price.usd_per_hour))
    : trans.__('Price per hour unknown');
}

/** On which terms a node is had, in a word; nothing where it is on demand. */
export function termsName(
  { provisioning, spot }: { readonly provisioning?: Provisioning; readonly spot: boolean },
  trans: TranslationBundle
): string {
  const words: { readonly [terms in Provisioning]: string } = {
    'on-demand': '',
    spot: trans.__('spot'),
    preemptible: trans.__('preemptible'),
    reserved: trans.__('reserved'),
    'flex-start': trans.__('flex-start')
  };
  return words[provisioning ?? (spot ? 'spot' : 'on-demand')] ?? provisioning ?? '';
}

/** That a stopped node can only be deleted; empty where it can be started again. */
export function noStartText(
  node: { readonly provisioning?: Provisioning; readonly spot: boolean },
  trans: TranslationBundle
): string {
  // the cloud starts neither spot nor preemptible nodes again; `spot` says both
  return node.spot
    ? trans.__(
        "A %1 node can't be started again. Its disk is kept and billed until you delete the node.",
        termsName(node, trans)
      )
    : '';
}

/** Where a price is from; shown with it, since a list price is not a bill. */
export function formatPriceSource(price: IPrice | null, trans: TranslationBundle): string {
  if (!price) {
    return trans.__('No list price is known for this type and zone.');
  }
  return price.as_of
    ? trans.__('List price as of %1. Source: %2', price.as_of, price.source)
    : trans.__('List price of unknown date. Source: %1', price.source);
}

/** What is being done, for a verb of an intent. */
function formatVerb(verb: Verb, trans: TranslationBundle): string {
  const words: { readonly [verb in Verb]: string } = {
    create: trans.__('Creating'),
    delete: trans.__('Deleting'),
    stop: trans.__('Stopping'),
    start: trans.__('Starting')
  };
  return words[verb] ?? verb;
}

/** How far an intent is: the verb, and its phase where that says more. */
export function formatProgress(verb: Verb, phase: string, trans: TranslationBundle): string {
  const word = formatVerb(verb, trans);
  return phase && phase !== word.toLowerCase() ? `${word} · ${phase}` : word;
}
