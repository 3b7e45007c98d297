/** The form that creates a node, searches for one or queues for one. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ICoverage, IQuotaAfter, Provisioning } from '../api.generated';
import { Way } from '../create/draft';

// Name and place

export function invalidName(trans: TranslationBundle): string {
  return trans.__(
    "Use 1 to 63 lower-case letters, digits and hyphens. Start with a letter and don't end with a hyphen."
  );
}

export function nameTaken(zone: string, trans: TranslationBundle): string {
  return trans.__('%1 already has a node with this name.', zone);
}

export function acceleratorType(trans: TranslationBundle): string {
  return trans.__('Accelerator type');
}

export function internalOnly(trans: TranslationBundle): string {
  return trans.__('Internal addresses only');
}

export function internalOnlyNote(trans: TranslationBundle): string {
  return trans.__('No external address: reachable only from its own network.');
}

// Provisioning models

export function provisioningModel(trans: TranslationBundle): string {
  return trans.__('Provisioning model');
}

export function onDemand(trans: TranslationBundle): string {
  return trans.__('On demand');
}

export function onDemandNote(trans: TranslationBundle): string {
  return trans.__('Yours until you stop or delete it.');
}

export function spot(trans: TranslationBundle): string {
  return trans.__('Spot');
}

export function spotNote(trans: TranslationBundle): string {
  return trans.__('Cheaper, but can be pre-empted at any time.');
}

export function preemptible(trans: TranslationBundle): string {
  return trans.__('Preemptible');
}

export function preemptibleNote(trans: TranslationBundle): string {
  return trans.__('Like spot, for 24 hours at most.');
}

export function reserved(trans: TranslationBundle): string {
  return trans.__('Reserved');
}

export function reservedNote(trans: TranslationBundle): string {
  return trans.__('From a reservation of your project.');
}

export function flexStart(trans: TranslationBundle): string {
  return trans.__('Flex-start');
}

export function flexStartNote(trans: TranslationBundle): string {
  return trans.__('Queued, for a fixed time.');
}

// Ways to get a node

export function createNow(trans: TranslationBundle): string {
  return trans.__('Create it now');
}

export function searchWay(trans: TranslationBundle): string {
  return trans.__('Search until one is found');
}

export function queueWay(trans: TranslationBundle): string {
  return trans.__('Queue until there is capacity');
}

export function howToGetIt(trans: TranslationBundle): string {
  return trans.__('How to get it');
}

export function reservation(trans: TranslationBundle): string {
  return trans.__('Reservation');
}

export function reservationNote(trans: TranslationBundle): string {
  return trans.__('ID of the reservation. Leave empty for any that fits.');
}

export function acceptUnknownPrice(trans: TranslationBundle): string {
  return trans.__('Create anyway (price unknown)');
}

export function acceptAnyOf(trans: TranslationBundle): string {
  return trans.__('Accept any of these, cheapest first');
}

export function keepTryingFor(trans: TranslationBundle): string {
  return trans.__('Keep trying for (minutes)');
}

export function tryEachOnce(trans: TranslationBundle): string {
  return trans.__('Leave empty to try each once');
}

export function giveUpAfter(trans: TranslationBundle): string {
  return trans.__('Give up after');
}

export function queueBilling(trans: TranslationBundle): string {
  return trans.__('Billing starts when the node is created.');
}

export function hours(count: number, trans: TranslationBundle): string {
  return trans._n('%1 hour', '%1 hours', count);
}

export function runFor(trans: TranslationBundle): string {
  return trans.__('Run for (hours)');
}

export function runForNote(trans: TranslationBundle): string {
  return trans.__('Google Cloud deletes it this long after it becomes READY.');
}

export function useNumberUpTo168(trans: TranslationBundle): string {
  return trans.__('Use a number up to 168.');
}

// Price, billing and quota of a choice

export function billedWithReservation(trans: TranslationBundle): string {
  return trans.__('Billed with its reservation');
}

export function reservationPrice(trans: TranslationBundle): string {
  return trans.__('A reservation has its own price and is billed whether you use it or not.');
}

export function choiceSummary(trans: TranslationBundle): string {
  return trans.__('Price and quota for this choice');
}

export function billing(trans: TranslationBundle): string {
  return trans.__('Billing');
}

export function quota(trans: TranslationBundle): string {
  return trans.__('Quota');
}

export function notKnown(what: string, reason: string, trans: TranslationBundle): string {
  return trans.__('%1: unknown (%2)', what, reason);
}

export function loadingPart(what: string, trans: TranslationBundle): string {
  return trans.__('%1: loading…', what);
}

export function notIncluded(trans: TranslationBundle): string {
  return trans.__('Not included in this price');
}

/** The price of a node that a grant covers. */
export function grantedPrice(
  { grant, until }: ICoverage,
  price: string,
  trans: TranslationBundle
): string {
  return trans.__(
    'Free under your TRC grant %1 until %2, then %3',
    grant ?? '',
    until ?? '',
    price
  );
}

export function quotaIncomplete(reason: string, trans: TranslationBundle): string {
  return trans.__('Quota may be incomplete: %1', reason);
}

export function submitLabel(way: Way, isSending: boolean, trans: TranslationBundle): string {
  if (isSending) {
    return trans.__('Creating…');
  }
  const names = {
    now: trans.__('Create'),
    search: trans.__('Search'),
    queue: trans.__('Queue')
  };
  return names[way];
}

export function priceTerms(provisioning: Provisioning, trans: TranslationBundle): string {
  const names: { readonly [terms in Provisioning]: string } = {
    'on-demand': trans.__('on demand'),
    spot: trans.__('as spot'),
    preemptible: trans.__('as preemptible'),
    reserved: trans.__('as reserved'),
    'flex-start': trans.__('by flex-start')
  };
  return names[provisioning];
}

export function quotaLeft(row: IQuotaAfter, trans: TranslationBundle): string {
  const { limit, after, used, asked, unit } = row;
  if (row.is_unlimited) {
    return trans.__('unlimited');
  }
  if (limit === null || after === null) {
    return trans.__('%1 %2 requested, %3 in use; limit unknown', asked, unit, used);
  }
  return row.fits === false
    ? trans.__(
        '%1 %2 requested, but only %3 of %4 free',
        asked,
        unit,
        Math.max(0, limit - used),
        limit
      )
    : trans.__('%1 of %2 %3 left afterwards', after, limit, unit);
}
