/** Totals over several chips and workers; pure. */

import { ICore, IMetrics, ISample } from '../api.generated';

/** Totals; null where no part is known. */
export interface ITotals {
  /** Mean over all chips. */
  readonly duty_percent: number | null;
  /** Duty of the busiest chip. */
  readonly busiest_percent: number | null;
  readonly hbm_used_bytes: number | null;
  readonly hbm_total_bytes: number | null;
  /** Mean over the hosts. */
  readonly cpu_percent: number | null;
  /** Whether all workers report that no process uses a chip. */
  readonly isIdle: boolean;
}

/** A chip with its cores. */
export interface IChipCores {
  readonly chip: number;
  readonly duty_percent: number | null;
  readonly cores: readonly ICore[];
}

export function totalsOf(samples: readonly ISample[]): ITotals {
  const duties = samples.flatMap(({ chips }) => known(chips.map(chip => chip.duty_percent)));
  const measured = samples.flatMap(({ cores }) => cores.filter(hasHbm));
  return {
    duty_percent: mean(duties),
    busiest_percent: duties.length > 0 ? Math.max(...duties) : null,
    hbm_used_bytes: sum(measured.map(core => core.hbm_used_bytes)),
    hbm_total_bytes: sum(measured.map(core => core.hbm_total_bytes)),
    cpu_percent: mean(known(samples.map(({ host }) => host.cpu_percent))),
    isIdle: samples.length > 0 && samples.every(({ state }) => state === 'idle')
  };
}

export function samplesOf({ workers }: IMetrics): ISample[] {
  return workers.flatMap(({ sample }) => (sample ? [sample] : []));
}

/** Group the cores by chip. A chip that is named only by its cores has no duty value of its own. */
export function chipsOf({ chips, cores }: ISample): IChipCores[] {
  const duties = new Map(chips.map(({ chip, duty_percent }) => [chip, duty_percent]));
  const numbers = [...new Set([...duties.keys(), ...cores.map(core => core.chip)])];
  return numbers
    .sort((left, right) => left - right)
    .map(chip => ({
      chip,
      duty_percent: duties.get(chip) ?? null,
      cores: cores.filter(core => core.chip === chip)
    }));
}

/** A part as a percentage of a whole; null if either is unknown. */
export function percentOf(part: number | null, whole: number | null): number | null {
  return part === null || whole === null || whole <= 0 ? null : (100 * part) / whole;
}

export function known(values: readonly (number | null | undefined)[]): number[] {
  return values.filter((value): value is number => typeof value === 'number');
}

export function mean(values: readonly number[]): number | null {
  return values.length > 0 ? values.reduce((left, right) => left + right, 0) / values.length : null;
}

function sum(values: readonly (number | null)[]): number | null {
  const all = known(values);
  return all.length > 0 ? all.reduce((left, right) => left + right, 0) : null;
}

/** Whether both values of a core are known; only such cores count, so that the ratio is right. */
function hasHbm(core: ICore): boolean {
  return core.hbm_used_bytes !== null && core.hbm_total_bytes !== null;
}
