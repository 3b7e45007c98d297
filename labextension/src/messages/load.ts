/** Load of a node: chips, cores, hosts, history, and TPU processes. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IActivitySource, IMetrics, ISample, ITpuProcess } from '../api.generated';
import { Line } from '../load/series';
import { ITotals, known, percentOf, samplesOf, totalsOf } from '../load/totals';
import {
  Field,
  FIELDS,
  formatGib,
  formatPercent,
  reasonFor,
  shortGib,
  valuesOf
} from '../load/values';
import { formatMoment } from '../money/moments';

// Section

export function title(trans: TranslationBundle): string {
  return trans.__('Load');
}

export function loadOf(name: string, trans: TranslationBundle): string {
  return trans.__('Load of %1', name);
}

export function noWorkerAnswered(trans: TranslationBundle): string {
  return trans.__('No worker has responded yet.');
}

export function chipsOf(name: string, trans: TranslationBundle): string {
  return trans.__('Chips of %1', name);
}

export function eachChip(values: readonly string[], trans: TranslationBundle): string {
  return trans.__('Each chip: %1', values.join(', '));
}

export function workers(trans: TranslationBundle): string {
  return trans.__('Workers');
}

export function collapseAll(trans: TranslationBundle): string {
  return trans.__('Collapse all workers');
}

export function expandAll(trans: TranslationBundle): string {
  return trans.__('Expand all workers');
}

export function workerTitle(id: number, trans: TranslationBundle): string {
  return trans.__('Worker %1', id);
}

export function noNewData(trans: TranslationBundle): string {
  return trans.__('no new data');
}

export function worker(id: number, trans: TranslationBundle): string {
  return trans.__('worker %1', id);
}

export function noMeasurements(trans: TranslationBundle): string {
  return trans.__('No measurements yet.');
}

// Chips and cores

export function idle(trans: TranslationBundle): string {
  return trans.__('Idle: no process is using the chips.');
}

export function unknownBecause(reason: string, trans: TranslationBundle): string {
  return trans.__('Unknown: %1', reason);
}

export function noReason(trans: TranslationBundle): string {
  return trans.__('no reason given');
}

export function unknownValues(trans: TranslationBundle): string {
  return trans.__('Unknown values');
}

export function chip(number: number, trans: TranslationBundle): string {
  return trans.__('chip %1', number);
}

export function chipTitle(number: number, trans: TranslationBundle): string {
  return trans.__('Chip %1', number);
}

export function chipDuty(trans: TranslationBundle): string {
  return trans.__('Chip duty');
}

export function duty(trans: TranslationBundle): string {
  return trans.__('Duty');
}

export function sharedDuty(trans: TranslationBundle): string {
  return trans.__('One value for all cores of the chip');
}

export function core(number: number, trans: TranslationBundle): string {
  return trans.__('core %1', number);
}

export function coreTitle(number: number, trans: TranslationBundle): string {
  return trans.__('Core %1', number);
}

export function part(what: string, whole: string, trans: TranslationBundle): string {
  return trans.__('%1 of %2', what, whole);
}

export function seconds(value: string, trans: TranslationBundle): string {
  return trans.__('%1 s', value);
}

// Host

export function host(trans: TranslationBundle): string {
  return trans.__('host');
}

export function hostTitle(trans: TranslationBundle): string {
  return trans.__('Host');
}

export function hostWithCpus(count: number, trans: TranslationBundle): string {
  return trans._n('Host · %1 CPU', 'Host · %1 CPUs', count);
}

export function cpu(trans: TranslationBundle): string {
  return trans.__('CPU');
}

export function cpuOf(name: string, trans: TranslationBundle): string {
  return trans.__('CPU of %1', name);
}

export function memory(trans: TranslationBundle): string {
  return trans.__('Memory');
}

export function disk(trans: TranslationBundle): string {
  return trans.__('Disk');
}

// History

export function historyOf(name: string, span: string, trans: TranslationBundle): string {
  return trans.__('Load of %1 in the last %2, in percent', name, span);
}

export function lineSummary(
  line: string,
  now: string,
  least: string,
  most: string,
  trans: TranslationBundle
): string {
  return trans.__('%1: now %2, between %3 and %4.', line, now, least, most);
}

export function noHistory(trans: TranslationBundle): string {
  return trans.__('No measurements.');
}

// TPU processes

export function usedBy(trans: TranslationBundle): string {
  return trans.__('TPU used by');
}

export function processes(trans: TranslationBundle): string {
  return trans.__('TPU processes');
}

export function releasing(trans: TranslationBundle): string {
  return trans.__('Releasing the chips…');
}

export function onWorkers(count: number, trans: TranslationBundle): string {
  return trans._n('on %1 worker', 'on %1 workers', count);
}

export function pid(pid: number, trans: TranslationBundle): string {
  return trans.__('pid %1', pid);
}

export function releaseFrom(name: string, trans: TranslationBundle): string {
  return trans.__('Release the TPU used by %1', name);
}

export function releaseEllipsis(trans: TranslationBundle): string {
  return trans.__('Release…');
}

export function anotherUser(trans: TranslationBundle): string {
  return trans.__('another user');
}

export function processesUnknown(reason: string, trans: TranslationBundle): string {
  return trans.__("Can't list the TPU processes: %1", reason);
}

export function processGone(trans: TranslationBundle): string {
  return trans.__('The process no longer uses the chips.');
}

export function stillUsedBy(names: string, trans: TranslationBundle): string {
  return trans.__('Still used by %1.', names);
}

export function released(trans: TranslationBundle): string {
  return trans.__('The chips are free.');
}

export function unknownUser(trans: TranslationBundle): string {
  return trans.__('an unknown user');
}

export function releaseQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Release the TPU on %1?', name);
}

export function continueEllipsis(trans: TranslationBundle): string {
  return trans.__('Continue…');
}

export function release(trans: TranslationBundle): string {
  return trans.__('Release');
}

export function endForeignQuestion(users: string, trans: TranslationBundle): string {
  return trans.__('End the processes of %1?', users);
}

export function endProcesses(count: number, trans: TranslationBundle): string {
  return trans._n('End the process', 'End the processes', count);
}

export function endForeignConsequences(users: string, trans: TranslationBundle): string {
  return trans.__(
    "%1 won't be asked first. Unsaved work of these processes is lost. You can't undo this.",
    users
  );
}

export function processesEnd(count: number, trans: TranslationBundle): string {
  return trans._n('This process will end:', 'These %1 processes will end:', count);
}

export function foreignProcess(users: string, trans: TranslationBundle): string {
  return trans.__(
    'Owned by %1. Each process is asked to exit, and killed after 3 s. The worker may refuse both.',
    users
  );
}

export function memoryLost(trans: TranslationBundle): string {
  return trans.__('Variables and unsaved work in memory are lost.');
}

export function outputsStay(trans: TranslationBundle): string {
  return trans.__('Outputs are kept in your notebooks and on the node.');
}

export function workerAndPid(workerId: number, pid: number, trans: TranslationBundle): string {
  return trans.__('worker %1, pid %2', workerId, pid);
}

export function formatUsed(used: number, total: number | null, trans: TranslationBundle): string {
  return total === null
    ? trans.__('%1 GiB', formatGib(used))
    : trans.__('%1 of %2 GiB', formatGib(used), shortGib(total));
}

/** The load of a node or of a worker in a few words. */
export function formatTotals(totals: ITotals, trans: TranslationBundle): string {
  if (totals.isIdle) {
    return trans.__('idle');
  }
  const hbm = percentOf(totals.hbm_used_bytes, totals.hbm_total_bytes);
  const parts = [
    totals.duty_percent !== null && trans.__('duty %1 %', Math.round(totals.duty_percent)),
    hbm !== null && trans.__('HBM %1 %', Math.round(hbm))
  ];
  return parts.filter(Boolean).join(' · ') || trans.__('unknown');
}

/** The load of one of many workers, even shorter. */
export function formatDuty(totals: ITotals, trans: TranslationBundle): string {
  return formatTotals({ ...totals, hbm_used_bytes: null }, trans);
}

/** The number of workers, and how many did not respond; empty for a single worker that did. */
export function formatAnswers({ workers }: IMetrics, trans: TranslationBundle): string {
  const silent = workers.filter(({ error }) => error !== null).length;
  const count = trans._n('%1 worker', '%1 workers', workers.length);
  if (silent > 0) {
    return trans.__('%1, no new data from %2', count, silent);
  }
  return workers.length > 1 ? count : '';
}

/** The load of a whole node, in one line. */
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

/** A part of a worker; names the worker if there are several. */
export function placed(name: string, where: string, trans: TranslationBundle): string {
  return where ? trans.__('%1 of %2', name, where) : name;
}

export function fieldName(field: Field, trans: TranslationBundle): string {
  const names: { readonly [field in Field]: string } = {
    duty_percent: trans.__('Duty'),
    tensorcore_percent: trans.__('TensorCore'),
    hbm_used_bytes: trans.__('HBM'),
    hbm_bandwidth_percent: trans.__('Bandwidth'),
    idle_s: trans.__('Idle time'),
    queued: trans.__('Queue')
  };
  return names[field];
}

/** The unknown values of the chips and cores, each with its reason. */
export function formatUnknown(sample: ISample, trans: TranslationBundle): string[] {
  const lines = FIELDS.filter(field => valuesOf(sample, field).includes(null)).map(field => {
    const isPartial = known(valuesOf(sample, field)).length > 0;
    const name = fieldName(field, trans);
    const text = isPartial ? trans.__('%1: partly unknown', name) : trans.__('%1: unknown', name);
    return withReason(text, reasonFor(sample, field));
  });
  const cores = sample.unknown.cores;
  return cores ? [...lines, withReason(trans.__('Some cores: unknown'), cores)] : lines;
}

export function withReason(text: string, reason: string): string {
  return reason ? `${text} (${reason})` : text;
}

/** The name of a process: its notebook, or else its command. */
export function processName(
  { notebook, kernel_id, command, is_kernel }: ITpuProcess,
  trans: TranslationBundle
): string {
  const kernel = notebook || (kernel_id && trans.__('a kernel without a notebook on this server'));
  return kernel && !is_kernel ? trans.__('%1, started by %2', command, kernel) : kernel || command;
}

/** Since when a process has used the chips. */
export function formatSince(
  { since }: ITpuProcess,
  now_s: number,
  trans: TranslationBundle
): string {
  return since === null
    ? trans.__('start time unknown')
    : trans.__('since %1', formatMoment(since, now_s));
}

export function lineName(line: Line, trans: TranslationBundle): string {
  const names: { readonly [line in Line]: string } = {
    duty: trans.__('Duty'),
    busiest: trans.__('Busiest chip'),
    hbm: trans.__('HBM'),
    cpu: trans.__('Host CPU')
  };
  return names[line];
}

export function chipUse({ state }: IActivitySource, trans: TranslationBundle): string {
  const names = {
    active: trans.__('in use'),
    quiet: trans.__('idle'),
    unknown: trans.__('unknown')
  };
  return names[state];
}
