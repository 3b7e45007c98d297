/** Grants and credits. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IGrant, IGrantRow } from '../api.generated';
import { formatUsd } from '../format';

// Section

export function title(trans: TranslationBundle): string {
  return trans.__('Grants and credits');
}

export function none(trans: TranslationBundle): string {
  return trans.__('No grants entered: everything is billed.');
}

export function removeGrant(name: string, trans: TranslationBundle): string {
  return trans.__('Remove the grant %1', name);
}

export function addEllipsis(trans: TranslationBundle): string {
  return trans.__('Add a grant or credit…');
}

export function period(start: string, end: string, trans: TranslationBundle): string {
  return trans.__('%1 to %2', start, end);
}

export function useUnknown(trans: TranslationBundle): string {
  return trans.__('usage unknown');
}

export function usedAndFree(used: number, free: number, trans: TranslationBundle): string {
  return trans.__('%1 used, %2 free', used, free);
}

// Form

export function add(trans: TranslationBundle): string {
  return trans.__('Add a grant or credit');
}

export function kind(trans: TranslationBundle): string {
  return trans.__('Type');
}

export function trcGrant(trans: TranslationBundle): string {
  return trans.__('TRC grant (free chips for a period)');
}

export function credit(trans: TranslationBundle): string {
  return trans.__('Credit (US dollars for a period)');
}

export function amountUsd(trans: TranslationBundle): string {
  return trans.__('Amount in US dollars');
}

export function replacesGrant(trans: TranslationBundle): string {
  return trans.__('Replaces the grant with this name.');
}

export function firstDay(trans: TranslationBundle): string {
  return trans.__('First day');
}

export function days(trans: TranslationBundle): string {
  return trans.__('Days');
}

export function save(trans: TranslationBundle): string {
  return trans.__('Save');
}

export function mail(trans: TranslationBundle): string {
  return trans.__('Email text');
}

export function readMail(trans: TranslationBundle): string {
  return trans.__('Read email');
}

export function rowsRead(count: number, trans: TranslationBundle): string {
  return trans._n('Found %1 row.', 'Found %1 rows.', count);
}

/** What is still missing before a grant can be saved. */
export function missing(
  what: 'rows' | 'amount' | 'day' | 'name',
  trans: TranslationBundle
): string {
  const texts = {
    rows: trans.__('To save, paste the email and click “Read email”, or add a row.'),
    amount: trans.__('To save, enter the amount.'),
    day: trans.__('To save, enter the first day and the number of days.'),
    name: trans.__('To save, enter a name.')
  };
  return texts[what];
}

export function noDays(proposed: number, trans: TranslationBundle): string {
  return trans.__(
    "No clear term was found in the email. %1 days is TRC's shortest term: change it if yours is longer.",
    proposed
  );
}

export function noStart(trans: TranslationBundle): string {
  return trans.__('The email has no date. Enter the first day.');
}

export function startProposed(trans: TranslationBundle): string {
  return trans.__('Check the first day: it is the date of the email.');
}

export function skipUnread(trans: TranslationBundle): string {
  return trans.__('Save without the lines that could not be read');
}

export function unreadIsBilled(trans: TranslationBundle): string {
  return trans.__(
    'Add a row below for each of these lines. Until then, their chips count as billed.'
  );
}

// Rows of a TRC grant

export function rows(trans: TranslationBundle): string {
  return trans.__('Grant rows');
}

export function removeRow(row: string, trans: TranslationBundle): string {
  return trans.__('Remove %1', row);
}

export function addRowEllipsis(trans: TranslationBundle): string {
  return trans.__('Add a row manually');
}

export function newRow(trans: TranslationBundle): string {
  return trans.__('New row');
}

export function chips(trans: TranslationBundle): string {
  return trans.__('Chips');
}

export function generationNote(trans: TranslationBundle): string {
  return trans.__('TPU generation, for example v5e');
}

export function zoneNote(trans: TranslationBundle): string {
  return trans.__('Zone of the chips, for example us-central1-a');
}

export function spot(trans: TranslationBundle): string {
  return trans.__('spot');
}

export function addRow(trans: TranslationBundle): string {
  return trans.__('Add row');
}

export function formatGrantRow(row: IGrantRow, trans: TranslationBundle): string {
  const chips = trans._n('%1 chip', '%1 chips', row.chips);
  const kind = row.spot ? trans.__('spot') : trans.__('on-demand');
  const what = row.device ? `${row.generation} (${row.device})` : row.generation;
  return `${chips} ${what} · ${kind} · ${row.zone}`;
}

export function autostopRow(
  { is_over, ends_on, days_left }: IGrant,
  trans: TranslationBundle
): string {
  if (is_over) {
    return trans.__('ended %1', ends_on ?? '');
  }
  return days_left === null ? '' : trans._n('%1 day left', '%1 days left', days_left);
}

export function creditLeft({ usd, usd_used, usd_left }: IGrant, trans: TranslationBundle): string {
  const whole = usd === null ? trans.__('an unknown amount') : formatUsd(usd);
  if (usd_left === null) {
    return trans.__('%1; remaining amount unknown', whole);
  }
  const used = usd_used === null ? '' : trans.__(', %1 used', formatUsd(usd_used));
  return trans.__('%1 left of %2', formatUsd(usd_left), whole) + used;
}
