/** Values of chips and hosts, and which of them are missing; pure. */

import { ISample } from '../api.generated';
import { known } from './totals';

/** A value that may be unknown, each with its own reason. */
export type Field =
  | 'duty_percent'
  | 'tensorcore_percent'
  | 'hbm_used_bytes'
  | 'hbm_bandwidth_percent'
  | 'idle_s'
  | 'queued';

const GIB = 1024 ** 3;

export const FIELDS: readonly Field[] = [
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

/** Bytes in GiB, with one decimal below 100. */
export function formatGib(bytes: number): string {
  const gib = bytes / GIB;
  return gib >= 100 ? gib.toFixed(0) : gib.toFixed(1);
}

/** A size, without a decimal that is zero. */
export function shortGib(bytes: number): string {
  return formatGib(bytes).replace(/\.0$/, '');
}

/** Why a value is unknown, if the worker gave a reason. */
export function reasonFor({ unknown, reason }: ISample, field: Field): string {
  return unknown[field] ?? reason;
}

/** Values that no chip or core of the worker has. */
export function missingFields(sample: ISample): Field[] {
  const values = valuesOf(sample);
  return FIELDS.filter(field => known(values[field]).length === 0);
}

export function valuesOf({ chips, cores }: ISample): {
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
