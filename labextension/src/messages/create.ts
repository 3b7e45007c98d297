/** The form that creates a node, searches for one or queues for one. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ICoverage, ICoverageAutostop, IOffer, IQuotaAfter, Provisioning } from '../api.generated';
import { Way } from '../create/draft';
import { formatUsd } from '../format';
import { IOpenChoice } from '../tokens';
import { formatDuration, quotaAmount } from './units';

// Name and place

export function invalidName(trans: TranslationBundle): string {
  return trans.__(
    "Use 1 to 63 lower-case letters, digits and hyphens. Start with a letter and don't end with a hyphen."
  );
}

export function nameTaken(zone: string, trans: TranslationBundle): string {
  return trans.__('%1 already has a node with this name.', zone);
}

export function nameNotYetFree(trans: TranslationBundle): string {
  return trans.__(
    'The node with this name is still being deleted. Try again in a moment, or enter another name.'
  );
}

export function nameQueued(zone: string, trans: TranslationBundle): string {
  return trans.__('A node with this name is already queued in %1.', zone);
}

export function noOffers(trans: TranslationBundle): string {
  return trans.__('No zone offers TPUs. Refresh the nodes, then try again.');
}

export function more(trans: TranslationBundle): string {
  return trans.__('More options');
}

// Chips

export function chips(trans: TranslationBundle): string {
  return trans.__('Chips');
}

/** The name of the list below the search, whose visible label is different. */
export function types(trans: TranslationBundle): string {
  return trans.__('Accelerator types');
}

export function searchChips(trans: TranslationBundle): string {
  return trans.__('Search, for example v5e 8');
}

export function noChips(trans: TranslationBundle): string {
  return trans.__('No accelerator type matches.');
}

export function chipCount(chips: number, trans: TranslationBundle): string {
  return trans._n('%1 chip', '%1 chips', chips);
}

/** The chips with the memory of each, short enough for a narrow list. */
export function chipsWithMemory(
  { chips, hbm_gib }: { readonly chips: number; readonly hbm_gib: number | null },
  trans: TranslationBundle
): string {
  return hbm_gib ? trans.__('%1 × %2 GiB', chips, hbm_gib / chips) : chipCount(chips, trans);
}

export function free(trans: TranslationBundle): string {
  return trans.__('free');
}

export function priceLabel(usd_per_hour: number | null, trans: TranslationBundle): string {
  return usd_per_hour === null ? trans.__('unknown') : trans.__('%1/h', formatUsd(usd_per_hour));
}

// Where

export function where(trans: TranslationBundle): string {
  return trans.__('Location');
}

export function anywhere(trans: TranslationBundle): string {
  return trans.__('Anywhere (search)');
}

/** A zone with what differs between zones. */
export function placeLabel(
  zone: string,
  offer: IOffer,
  terms: Provisioning,
  trans: TranslationBundle
): string {
  if (offer.covered.includes(terms)) {
    return trans.__('%1 · free', zone);
  }
  return offer.out_of_capacity > 0 && offer.created === 0
    ? trans.__('%1 · no capacity lately', zone)
    : zone;
}

/** How many of this user's requests for this type have succeeded in this zone. */
export function capacityHint(
  { created, out_of_capacity }: IOffer,
  trans: TranslationBundle
): string {
  const all = created + out_of_capacity;
  if (all === 0) {
    return trans.__('Capacity unknown: no requests here in the last 30 days.');
  }
  return trans.__('Last 30 days: %1 of %2 requests succeeded here.', created, all);
}

export function zoneSilent(trans: TranslationBundle): string {
  return trans.__("This zone isn't responding.");
}

export function searchHint(trans: TranslationBundle): string {
  return trans.__('Tries all zones, starting with free and cheap ones.');
}

export function internalOnly(trans: TranslationBundle): string {
  return trans.__('Internal addresses only');
}

export function internalOnlyNote(trans: TranslationBundle): string {
  return trans.__('No external address: the node is reachable only from its VPC network.');
}

// Provisioning models

export function provisioningModel(trans: TranslationBundle): string {
  return trans.__('Provisioning model');
}

export function terms(trans: TranslationBundle): string {
  return trans.__('Provisioning');
}

export function termsName(terms: Provisioning | 'queue', trans: TranslationBundle): string {
  const names: { readonly [name in Provisioning | 'queue']: string } = {
    'on-demand': trans.__('On demand'),
    spot: trans.__('Spot'),
    preemptible: trans.__('Preemptible'),
    reserved: trans.__('Reserved'),
    'flex-start': trans.__('Flex-start'),
    queue: trans.__('Queue')
  };
  return names[terms];
}

export function termsNote(terms: Provisioning | 'queue', trans: TranslationBundle): string {
  const notes: { readonly [name in Provisioning | 'queue']: string } = {
    'on-demand': trans.__('Runs until you stop or delete it.'),
    spot: trans.__('Cheaper, but can be pre-empted at any time.'),
    preemptible: trans.__('Like spot, but for at most 24 hours.'),
    reserved: trans.__('From a reservation of your project.'),
    'flex-start': trans.__('Queued, with a fixed run duration.'),
    queue: trans.__('Waits for capacity. Billing starts when the node is created.')
  };
  return notes[terms];
}

// What opens on the node

export function openWhenReady(trans: TranslationBundle): string {
  return trans.__('Open when ready');
}

export function openName({ kind, path = '' }: IOpenChoice, trans: TranslationBundle): string {
  const names: { readonly [name in IOpenChoice['kind']]: string } = {
    none: trans.__('Nothing'),
    new: trans.__('New notebook'),
    example: trans.__('Example: %1', path.replace(/\.ipynb$/, '')),
    notebook: path
  };
  return names[kind];
}

/** A notebook that keeps its kernel on another node. */
export function stillRuns(
  node: string,
  notebook: string,
  other: string,
  trans: TranslationBundle
): string {
  return trans.__(
    '%1 is ready. %2 still runs on %3. Moving it ends its kernel there.',
    ...[node, notebook, other]
  );
}

export function moveTo(node: string, trans: TranslationBundle): string {
  return trans.__('Move it to %1', node);
}

export function runAllCells(trans: TranslationBundle): string {
  return trans.__('Run all cells');
}

// Profiles

export function profile(trans: TranslationBundle): string {
  return trans.__('Profile');
}

export function noProfile(trans: TranslationBundle): string {
  return trans.__('Choose a profile');
}

export function saveAsProfile(trans: TranslationBundle): string {
  return trans.__('Save this choice as a profile');
}

export function profileName(trans: TranslationBundle): string {
  return trans.__('Profile name');
}

export function save(trans: TranslationBundle): string {
  return trans.__('Save');
}

export function deleteProfile(name: string, trans: TranslationBundle): string {
  return trans.__('Delete the profile %1', name);
}

// Ways to get a node

export function reservation(trans: TranslationBundle): string {
  return trans.__('Reservation');
}

export function reservationNote(trans: TranslationBundle): string {
  return trans.__('Reservation ID. Leave empty for any that fits.');
}

/** @param zones the zones of a search whose price is unknown; empty for a node that is created in the chosen zone */
export function acceptUnknownPrice(zones: readonly string[], trans: TranslationBundle): string {
  return zones.length === 0
    ? trans.__('Create anyway (price unknown)')
    : trans.__('Also create the node in zones where the price is unknown: %1', zones.join(', '));
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

export function hours(count: number, trans: TranslationBundle): string {
  return trans._n('%1 hour', '%1 hours', count);
}

export function runFor(trans: TranslationBundle): string {
  return trans.__('Run for (hours)');
}

export function runForNote(trans: TranslationBundle): string {
  return trans.__('Google Cloud deletes the node this long after it becomes READY.');
}

export function enterRunHours(trans: TranslationBundle): string {
  return trans.__('Enter 0.02 to 168 hours.');
}

// Price, billing and quota of a choice

export function billedWithReservation(trans: TranslationBundle): string {
  return trans.__('Billed as part of its reservation');
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

/** When a forgotten node ends, and what it has cost by then; null for a price that is unknown or that a grant pays. */
export function forgottenCost(
  { action, idle_after_s, idle_at_most_s }: ICoverageAutostop,
  usd_per_hour: number | null,
  trans: TranslationBundle
): string {
  if (idle_after_s === null) {
    return trans.__('· no auto-stop');
  }
  const idle = idleText(idle_after_s, idle_at_most_s, trans);
  if (usd_per_hour === null || idle_at_most_s === null) {
    return action === 'stop'
      ? trans.__('· auto-stop after %1', idle)
      : trans.__('· deleted after %1', idle);
  }
  const most = formatUsd((usd_per_hour * idle_at_most_s) / 3600);
  return action === 'stop'
    ? trans.__('· auto-stop after %1; costs at most %2 if you forget the node', idle, most)
    : trans.__('· deleted after %1; costs at most %2 if you forget the node', idle, most);
}

/** The idle timeout, and the longer one while a cell runs without output and chip use. */
function idleText(idle_s: number, longest_s: number | null, trans: TranslationBundle): string {
  const idle = formatDuration(idle_s, trans);
  return longest_s !== null && longest_s > idle_s
    ? trans.__('%1 idle (%2 if a cell runs without output)', idle, formatDuration(longest_s, trans))
    : trans.__('%1 idle', idle);
}

export function idleMeans(trans: TranslationBundle): string {
  return trans.__(
    'Idle: no chip use, no output and no user action. A cell that has been running for a long time with idle chips and no output also counts as idle.'
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
    'on-demand': trans.__('on-demand'),
    spot: trans.__('spot'),
    preemptible: trans.__('preemptible'),
    reserved: trans.__('reserved'),
    'flex-start': trans.__('flex-start')
  };
  return names[provisioning];
}

export function quotaLeft(row: IQuotaAfter, trans: TranslationBundle): string {
  const { limit, after, used, asked, unit } = row;
  if (row.is_unlimited) {
    return trans.__('unlimited');
  }
  if (limit === null || after === null) {
    return trans.__(
      '%1 requested, %2 in use; limit unknown',
      quotaAmount(asked, unit, trans),
      used
    );
  }
  return row.fits === false
    ? trans.__(
        '%1 requested, but only %2 of %3 free',
        quotaAmount(asked, unit, trans),
        Math.max(0, limit - used),
        limit
      )
    : trans.__('%1 of %2 left afterwards', after, quotaAmount(limit, unit, trans));
}
