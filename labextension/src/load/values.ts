/** What the load of chips and hosts is in words; pure. */

import { ISample } from '../api.generated';
import { known } from './totals';

/** A number that may be unknown, with a reason of its own. */
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

/** Bytes in GiB, with one digit after the point where that says something. */
export function formatGib(bytes: number): string {
  const gib = bytes / GIB;
  return gib >= 100 ? gib.toFixed(0) : gib.toFixed(1);
}

/** A size that is mostly a whole number. */
export function shortGib(bytes: number): string {
  return formatGib(bytes).replace(/\.0$/, '');
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
