/** What the load of chips and hosts is in words; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { formatMoment } from '../money/words';
import { Field, IHolder, IMetrics, ISample } from './records';
import { Line } from './series';
import { ITotals, known, percentOf, samplesOf, totalsOf } from './totals';

const GIB = 1024 ** 3;

const FIELDS: readonly Field[] = [
  'duty_percent',
  'tensorcore_percent',
  'hbm_used_bytes',
  'hbm_bandwidth_percent',
  'queued',
  'idle_s'
];

export function formatPercent(percent: number): string {
  return `${percent.toFixed(1)} %`;
}

/** Bytes in GiB, with one digit after the point where that says something. */
export function formatGib(bytes: number): string {
  const gib = bytes / GIB;
  return gib >= 100 ? gib.toFixed(0) : gib.toFixed(1);
}

/** A size that is mostly a whole number. */
function shortGib(bytes: number): string {
  return formatGib(bytes).replace(/\.0$/, '');
}

export function formatUsed(used: number, total: number | null, trans: TranslationBundle): string {
  return total === null
    ? trans.__('%1 GiB', formatGib(used))
    : trans.__('%1 of %2 GiB', formatGib(used), shortGib(total));
}

/** The load of a node or of a worker in a few words. */
export function formatTotals(totals: ITotals, trans: TranslationBundle): string {
  if (totals.isIdle) {
    return trans.__('not in use');
  }
  const hbm = percentOf(totals.hbm_used_bytes, totals.hbm_total_bytes);
  const parts = [
    totals.duty_percent !== null && trans.__('duty %1 %', Math.round(totals.duty_percent)),
    hbm !== null && trans.__('HBM %1 %', Math.round(hbm))
  ];
  return parts.filter(Boolean).join(' · ') || trans.__('unknown');
}

/** The load of one worker among many, shorter still. */
export function formatDuty(totals: ITotals, trans: TranslationBundle): string {
  return formatTotals({ ...totals, hbm_used_bytes: null }, trans);
}

/** How many workers there are, and how many of them did not answer; nothing for one that did. */
export function formatAnswers({ workers }: IMetrics, trans: TranslationBundle): string {
  const silent = workers.filter(({ error }) => error !== null).length;
  const count = trans._n('%1 worker', '%1 workers', workers.length);
  if (silent > 0) {
    return trans.__('%1, no new numbers from %2', count, silent);
  }
  return workers.length > 1 ? count : '';
}

/** All that is known of a whole node, in one line. */
export function formatNode(metrics: IMetrics, trans: TranslationBundle): string {
  const totals = totalsOf(samplesOf(metrics));
  const { busiest_percent: busiest, hbm_used_bytes: used, hbm_total_bytes: total } = totals;
  return [
    totals.duty_percent !== null &&
      trans.__('Duty %1 on average', formatPercent(totals.duty_percent)),
    busiest !== null && trans.__('busiest chip %1', formatPercent(busiest)),
    used !== null && trans.__('HBM %1', formatUsed(used, total, trans)),
    formatAnswers(metrics, trans)
  ]
    .filter(Boolean)
    .join(' · ');
}

/** A thing of a worker, which is named where there are several. */
export function placed(name: string, where: string, trans: TranslationBundle): string {
  return where ? trans.__('%1 of %2', name, where) : name;
}

export function fieldName(field: Field, trans: TranslationBundle): string {
  const words: { readonly [field in Field]: string } = {
    duty_percent: trans.__('Duty'),
    tensorcore_percent: trans.__('TensorCore'),
    hbm_used_bytes: trans.__('HBM'),
    hbm_bandwidth_percent: trans.__('Bandwidth'),
    idle_s: trans.__('Idle time'),
    queued: trans.__('Queue')
  };
  return words[field];
}

/** Why a number is not known, as far as somebody said. */
export function reasonFor({ unknown, reason }: ISample, field: Field): string {
  return unknown[field] ?? reason;
}

/** Numbers that no chip and no core of a worker has. */
export function missingFields(sample: ISample): Field[] {
  const values = valuesOf(sample);
  return FIELDS.filter(field => known(values[field]).length === 0);
}

/** What is not known of the chips and cores, each with its reason; by name. */
export function formatUnknown(sample: ISample, trans: TranslationBundle): string[] {
  const values = valuesOf(sample);
  const lines = FIELDS.filter(field => values[field].includes(null)).map(field => {
    const isPartial = known(values[field]).length > 0;
    const name = fieldName(field, trans);
    const text = isPartial ? trans.__('%1: partly unknown', name) : trans.__('%1: unknown', name);
    return withReason(text, reasonFor(sample, field));
  });
  const cores = sample.unknown.cores;
  return cores ? [...lines, withReason(trans.__('Some cores: unknown'), cores)] : lines;
}

function withReason(text: string, reason: string): string {
  return reason ? `${text} (${reason})` : text;
}

function valuesOf({ chips, cores }: ISample): {
  readonly [field in Field]: readonly (number | null)[];
} {
  return {
    duty_percent: chips.map(chip => chip.duty_percent),
    tensorcore_percent: cores.map(core => core.tensorcore_percent),
    hbm_used_bytes: cores.map(core => core.hbm_used_bytes),
    hbm_bandwidth_percent: cores.map(core => core.hbm_bandwidth_percent),
    queued: cores.map(core => core.queued),
    idle_s: cores.map(core => core.idle_s)
  };
}

/** What a process is to the user: its notebook, or else its command. */
export function holderName(
  { notebook, kernel_id, command, is_kernel }: IHolder,
  trans: TranslationBundle
): string {
  const kernel = notebook || (kernel_id && trans.__('a kernel without a notebook here'));
  return kernel && !is_kernel ? trans.__('%1, started by %2', command, kernel) : kernel || command;
}

/** Since when a process has held the chips. */
export function formatSince({ since }: IHolder, now_s: number, trans: TranslationBundle): string {
  return since === null
    ? trans.__('since when is unknown')
    : trans.__('since %1', formatMoment(since, now_s));
}

export function lineName(line: Line, trans: TranslationBundle): string {
  const words: { readonly [line in Line]: string } = {
    duty: trans.__('Duty'),
    busiest: trans.__('Busiest chip'),
    hbm: trans.__('HBM'),
    cpu: trans.__('Host CPU')
  };
  return words[line];
}
