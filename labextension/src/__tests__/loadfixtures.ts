import {
  ICore,
  IMetrics,
  ISample,
  ISampleHistory,
  ITpuProcess,
  IWorkerMetrics
} from '../api.generated';
import { CORE_FIELDS, CoreField } from '../load/values';

export const GIB = 1024 ** 3;
export const NOW = 1_790_000_000;

const NOTHING_KNOWN = Object.fromEntries(
  Object.keys(CORE_FIELDS).map(field => [field, null])
) as Record<CoreField, null>;

export function core(number: number, rest: Partial<ICore> = {}): ICore {
  return {
    ...NOTHING_KNOWN,
    core: number,
    chip: number,
    hbm_used_bytes: 4 * GIB,
    hbm_total_bytes: 16 * GIB,
    idle_s: 0,
    queued: 0,
    ...rest
  };
}

export function holder(rest: Partial<ITpuProcess> = {}): ITpuProcess {
  return {
    pid: 4242,
    user: 'me',
    command: 'python train.py',
    kernel_id: '',
    notebook: '',
    since: NOW - 600,
    is_own_user: true,
    is_kernel: true,
    ...rest
  };
}

/** A v5litepod-4: a core on each chip. */
export function sample(rest: Partial<ISample> = {}): ISample {
  return {
    at: NOW,
    state: 'measured',
    reason: '',
    duty_per: 'core',
    chips: [0, 1, 2, 3].map(chip => ({ chip, duty_percent: 20 * chip })),
    cores: [0, 1, 2, 3].map(number => core(number)),
    unknown: { tensorcore_percent: "needs libtpu's SDK on the worker" },
    host: {
      cpus: 96,
      cpu_percent: 12.5,
      memory_used_bytes: 12 * GIB,
      memory_total_bytes: 384 * GIB,
      disk_used_bytes: 40 * GIB,
      disk_total_bytes: 100 * GIB
    },
    holders: [],
    ...rest
  };
}

/** What a v3-8 says: two cores on each chip, which share its duty. */
export function v3Sample(): ISample {
  return sample({
    duty_per: 'chip',
    chips: [{ chip: 0, duty_percent: 78.7 }],
    cores: [core(0, { chip: 0 }), core(1, { chip: 0, hbm_used_bytes: null })],
    unknown: { hbm_used_bytes: 'libtpu gave -1' }
  });
}

export function worker(worker_id: number, rest: Partial<IWorkerMetrics> = {}): IWorkerMetrics {
  return {
    worker_id,
    hostname: `t1v-n-0-w-${worker_id}`,
    as_of: NOW,
    clock_ahead_s: 0,
    error: null,
    sample: sample(),
    history: null,
    ...rest
  };
}

export function metrics(...workers: IWorkerMetrics[]): IMetrics {
  return { as_of: NOW, is_complete: true, accelerator_type: 'v5litepod-4', workers };
}

export function history(at: readonly number[], rest: Partial<ISampleHistory> = {}): ISampleHistory {
  const column = (value: number | null): (number | null)[] => at.map(() => value);
  return {
    at,
    duty_percent: { 0: column(50), 1: column(100) },
    hbm_used_bytes: { 0: column(8 * GIB) },
    tensorcore_percent: {},
    cpu_percent: column(10),
    memory_used_bytes: column(null),
    ...rest
  };
}
