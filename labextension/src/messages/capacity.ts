/** Searches for capacity, and queued resources. */

import { TranslationBundle } from '@jupyterlab/translation';
import { INewQueued, IQueued } from '../api.generated';
import { formatMoment } from '../money/moments';
import { anywhere, termsName } from './create';
import { formatDuration, provisioningName } from './units';

export function title(trans: TranslationBundle): string {
  return trans.__('Search and queue');
}

export function running(count: number, trans: TranslationBundle): string {
  return trans._n('%1 search running', '%1 searches running', count);
}

export function searches(trans: TranslationBundle): string {
  return trans.__('Searches');
}

export function noSearches(trans: TranslationBundle): string {
  return trans.__('No searches.');
}

export function queuedResources(trans: TranslationBundle): string {
  return trans.__('Queued resources');
}

/** A notice that a request for a node has been accepted. */
export function queuedNotice(
  { node_id, zone, accelerator_type }: INewQueued,
  trans: TranslationBundle
): string {
  return trans.__('%1 (%2) is queued in %3.', node_id, accelerator_type, zone);
}

export function noQueued(trans: TranslationBundle): string {
  return trans.__('No queued resources.');
}

/** Where searches and queued resources come from, while there is none. */
export function startInForm(trans: TranslationBundle): string {
  return trans.__(
    'Both start in the form for a new node: choose “%1” as the location, or “%2” as the provisioning model.',
    ...[anywhere(trans), termsName('queue', trans)]
  );
}

export function attempts(name: string, trans: TranslationBundle): string {
  return trans.__('Attempts for %1', name);
}

export function cancelSearch(name: string, trans: TranslationBundle): string {
  return trans.__('Cancel the search for %1', name);
}

export function removeQueued(id: string, trans: TranslationBundle): string {
  return trans.__('Remove the queued resource %1', id);
}

export function removeQuestion(id: string, trans: TranslationBundle): string {
  return trans.__('Remove %1?', id);
}

export function removeConsequences(trans: TranslationBundle): string {
  return trans.__(
    'This also deletes its node: the disk and all files on it are lost, and the kernels stop.'
  );
}

/** The result of an attempt. */
export function outcomeName(outcome: string, trans: TranslationBundle): string {
  const names: { readonly [outcome: string]: string } = {
    trying: trans.__('trying'),
    quota: trans.__('quota used up'),
    stockout: trans.__('no capacity'),
    not_allowed: trans.__('not allowed for this project'),
    address: trans.__('no external addresses left'),
    other: trans.__('refused'),
    won: trans.__('created'),
    waiting: trans.__('waiting')
  };
  return names[outcome] ?? outcome;
}

export function phaseName(phase: string, trans: TranslationBundle): string {
  const names: { readonly [phase: string]: string } = {
    trying: trans.__('searching'),
    found: trans.__('found'),
    failed: trans.__('nothing found'),
    cancelled: trans.__('cancelled')
  };
  return names[phase] ?? phase;
}

export function queuedDetails(queued: IQueued, now_s: number, trans: TranslationBundle): string {
  const { state_since, valid_until } = queued;
  return [
    queued.accelerator_type,
    queued.zone,
    provisioningName(queued, trans),
    state_since !== null && trans.__('for %1', formatDuration(now_s - state_since, trans)),
    // a queued resource that has ended waits for nothing
    valid_until !== null &&
      !queued.is_leftover &&
      trans.__('valid until %1', formatMoment(valid_until, now_s)),
    queued.is_leftover && trans.__('leftover (uses only quota)')
  ]
    .filter(Boolean)
    .join(' · ');
}
