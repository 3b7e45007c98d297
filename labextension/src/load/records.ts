/**
 * What the server half says of the load of a node, field by field (server/rest-api.yml). Importing this module does nothing.
 *
 * Moments are seconds since the epoch: in a sample by the worker's clock, elsewhere by the server's. Chips and cores have
 * the numbers that libtpu gives them, which over a slice do not begin at 0. What is not known is null.
 */

import { IProblem } from '../tokens';

/** A process that holds chips. */
export interface IHolder {
  readonly pid: number;
  readonly user: string;
  readonly command: string;
  /** Empty where it is no kernel of ours; so is the notebook. */
  readonly kernel_id: string;
  readonly notebook: string;
  readonly since: number | null;
  readonly is_own_user: boolean;
  /** Not something that the kernel has started. */
  readonly is_kernel: boolean;
}

export interface IChip {
  readonly chip: number;
  readonly duty_percent: number | null;
}

export interface ICore {
  readonly core: number;
  readonly chip: number;
  readonly tensorcore_percent: number | null;
  readonly hbm_used_bytes: number | null;
  readonly hbm_total_bytes: number | null;
  readonly hbm_bandwidth_percent: number | null;
  readonly idle_s: number | null;
  readonly queued: number | null;
}

export interface IHost {
  readonly cpus: number | null;
  readonly cpu_percent: number | null;
  readonly memory_used_bytes: number | null;
  readonly memory_total_bytes: number | null;
  readonly disk_used_bytes: number | null;
  readonly disk_total_bytes: number | null;
}

/** A number that may be unknown, with a reason of its own. */
export type Field =
  | 'duty_percent'
  | 'tensorcore_percent'
  | 'hbm_used_bytes'
  | 'hbm_bandwidth_percent'
  | 'idle_s'
  | 'queued';

/** One worker at one moment. */
export interface ISample {
  readonly at: number;
  /** Idle: no process uses the chips, so that nobody serves their numbers. */
  readonly state: 'measured' | 'idle' | 'unknown';
  readonly reason: string;
  /** Whether the duty is one number for all cores of a chip. */
  readonly duty_per: 'chip' | 'core';
  readonly chips: readonly IChip[];
  readonly cores: readonly ICore[];
  /** Why a number is not known, by its name. */
  readonly unknown: { readonly [field: string]: string };
  readonly host: IHost;
  readonly holders: readonly IHolder[];
}

type Column = readonly (number | null)[];

/** What a worker was like before; columns of the same length. */
export interface IHistory {
  readonly at: readonly number[];
  readonly duty_percent: { readonly [chip: string]: Column };
  readonly hbm_used_bytes: { readonly [core: string]: Column };
  readonly tensorcore_percent: { readonly [core: string]: Column };
  readonly cpu_percent: Column;
  readonly memory_used_bytes: Column;
}

export interface IWorkerLoad {
  readonly worker_id: number;
  readonly hostname: string | null;
  /** When its sample came in. */
  readonly as_of: number | null;
  readonly error: IProblem | null;
  readonly sample: ISample | null;
  readonly history?: IHistory | null;
}

export interface IMetrics {
  readonly as_of: number | null;
  readonly is_complete: boolean;
  readonly accelerator_type: string;
  readonly workers: readonly IWorkerLoad[];
}

/** What is to be freed, on one worker. */
export interface IFreeTerms {
  readonly worker_id: number;
  readonly pid: number;
  /** It belongs to another user, and is to end all the same. */
  readonly force: boolean;
}

export interface IFreed {
  readonly freed: readonly IHolder[];
  readonly left: readonly IHolder[];
  readonly message: string;
}
