/** Values of chips and hosts, and which of them are missing; pure. */

import { ICore, ISample } from '../api.generated';
import { known } from './totals';

/** A value of a core; HBM is shown as a share of its total. */
export type CoreField = Exclude<keyof ICore, 'core' | 'chip' | 'hbm_total_bytes'>;

export type Kind = 'percent' | 'bytes' | 'count' | 'seconds';

/** How each value of a core is shown, in this order. */
export const CORE_FIELDS: { readonly [field in CoreField]: Kind } = {
  tensorcore_percent: 'percent',
  hbm_used_bytes: 'bytes',
  hbm_bandwidth_percent: 'percent',
  queued: 'count',
  idle_s: 'seconds'
};

/** A value that may be unknown; each has its own reason. */
export type Field = 'duty_percent' | CoreField;

const GIB = 1024 ** 3;

const CORE_FIELD_NAMES = Object.keys(CORE_FIELDS) as CoreField[];

export const FIELDS: readonly Field[] = ['duty_percent', ...CORE_FIELD_NAMES];

export function formatPercent(percent: number): string {
  return `${percent.toFixed(1)} %`;
}

/** Bytes in GiB, with one decimal below 100. */
export function formatGib(bytes: number): string {
  const gib = bytes / GIB;
  return gib >= 100 ? gib.toFixed(0) : gib.toFixed(1);
}

/** A size, without a zero decimal. */
export function shortGib(bytes: number): string {
  return formatGib(bytes).replace(/\.0$/, '');
}

/** Why a value is unknown, if the worker gave a reason. */
export function reasonFor({ unknown, reason }: ISample, field: Field): string {
  return unknown[field] ?? reason;
}

/** Values that are unknown for every chip and core of the worker. */
export function missingFields(sample: ISample): Field[] {
  return FIELDS.filter(field => known(valuesOf(sample, field)).length === 0);
}

export function valuesOf({ chips, cores }: ISample, field: Field): readonly (number | null)[] {
  return field === 'duty_percent'
    ? chips.map(chip => chip.duty_percent)
    : cores.map(core => core[field]);
}

/** The values of these kinds that are known for some core. */
export function fieldsOf(kinds: readonly Kind[], missing: readonly Field[]): CoreField[] {
  return CORE_FIELD_NAMES.filter(
    field => kinds.includes(CORE_FIELDS[field]) && !missing.includes(field)
  );
}
