/** Billable resources and quota: what to delete, and how to stop everything. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ICleanupItem } from '../api.generated';
import { IEnds } from '../fleet';
import { formatUsd } from '../format';
import { inPlace } from './common';

export function title(trans: TranslationBundle): string {
  return trans.__('Billable resources and quota');
}

export function stopEverythingHint(trans: TranslationBundle): string {
  return trans.__('Stop all spending in this project now');
}

export function stopEverything(trans: TranslationBundle): string {
  return trans.__('Stop everything…');
}

export function outcome(done: number, failed: number, trans: TranslationBundle): string {
  return trans.__('%1 done, %2 failed.', done, failed);
}

export function notDone(trans: TranslationBundle): string {
  return trans.__('failed');
}

export function none(trans: TranslationBundle): string {
  return trans.__('No billable resources, and nothing uses quota.');
}

export function nonePartly(trans: TranslationBundle): string {
  return trans.__('Nothing found in the zones that responded.');
}

export function selectLeftovers(trans: TranslationBundle): string {
  return trans.__('Select leftovers');
}

export function deleteSelected(count: number, trans: TranslationBundle): string {
  return count === 0
    ? trans.__('Delete selected…')
    : trans._n('Delete %1 selected…', 'Delete %1 selected…', count);
}

// Questions

export function deleteQuestion(count: number, trans: TranslationBundle): string {
  return trans._n('Delete %1 resource?', 'Delete %1 resources?', count);
}

export function deleteOneQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Delete %1?', name);
}

export function costUnknown(trans: TranslationBundle): string {
  return trans.__('Total cost unknown.');
}

export function notOurs(count: number, trans: TranslationBundle): string {
  return trans._n(
    '%1 of these was not created by jupyter_tpu and may be in use by someone else.',
    '%1 of these were not created by jupyter_tpu and may be in use by someone else.',
    count
  );
}

/** What is lost with a resource. */
export function consequences(
  { kind, state }: Pick<ICleanupItem, 'kind' | 'state'>,
  trans: TranslationBundle
): string {
  if (kind === 'queued_resource') {
    return trans.__('Its nodes, their disks and all files on them are deleted.');
  }
  return state === 'STOPPED'
    ? trans.__(
        'Its disk and all files on it are deleted. To keep them, start the stopped node again instead.'
      )
    : trans.__('Its disk and all files on it are deleted, and its kernels stop.');
}

export function deleteConsequences(trans: TranslationBundle): string {
  return trans.__('Disks and all files on them are deleted, and kernels stop.');
}

export function stopAllQuestion(trans: TranslationBundle): string {
  return trans.__('Stop everything?');
}

export function stopAll(trans: TranslationBundle): string {
  return trans.__('Stop everything');
}

export function stopAllConsequences(trans: TranslationBundle): string {
  return trans.__(
    'This includes searches, queued resources, and nodes of this project that jupyter_tpu did not create, in all zones. Kernels stop.'
  );
}

/** Which nodes are stopped, and which are deleted. */
export function endsText({ stopped, deleted }: IEnds, trans: TranslationBundle): string[] {
  const names = (nodes: IEnds['stopped']): string =>
    nodes.map(({ node_id, zone }) => inPlace(node_id, zone, trans)).join(', ');
  return [
    ...(stopped.length > 0
      ? [trans.__('Will be stopped (disk and files are kept): %1.', names(stopped))]
      : []),
    ...(deleted.length > 0
      ? [trans.__('Will be deleted with disk and files: %1.', names(deleted))]
      : [])
  ];
}

export function currentRate(rate: string, trans: TranslationBundle): string {
  return trans.__('Cost now: %1.', rate);
}

/** The total cost of the selected resources, for the question before they are deleted. */
export function totalCost(items: readonly ICleanupItem[], trans: TranslationBundle): string {
  const billed = items.filter(({ is_billed }) => is_billed);
  if (billed.length === 0) {
    return items.some(({ state }) => state === 'STOPPED')
      ? trans.__('Not billed by the hour; stopped nodes are billed for their disks.')
      : trans.__('Not billed by the hour.');
  }
  const usd = billed.reduce((sum, { usd_per_hour }) => sum + (usd_per_hour ?? 0), 0);
  const isPartial = billed.some(({ usd_per_hour }) => usd_per_hour === null);
  return isPartial
    ? trans.__('Cost now: at least %1 per hour; some prices are unknown.', formatUsd(usd))
    : trans.__('Cost now: %1 per hour.', formatUsd(usd));
}

export function resourceDetails(item: ICleanupItem, trans: TranslationBundle): string[] {
  const price =
    item.usd_per_hour === null
      ? trans.__('price unknown')
      : trans.__('%1 per hour', formatUsd(item.usd_per_hour));
  return [
    item.kind === 'queued_resource' ? trans.__('queued resource') : '',
    item.accelerator_type,
    item.zone,
    item.is_billed ? price : '',
    item.holds_quota ? trans.__('uses quota') : '',
    item.is_leftover ? trans.__('leftover') : '',
    item.kind === 'node' && item.state === 'STOPPED' ? trans.__('disk kept') : '',
    item.is_ours ? '' : trans.__('created elsewhere'),
    item.description
  ].filter(Boolean);
}
