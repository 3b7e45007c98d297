/** The emulated cloud as its control API returns it (`GET state`); pure. */

/** The time of the emulated cloud. */
export interface IClock {
  /** Seconds since the epoch. */
  readonly now: number;
  /** Emulated seconds per real second. */
  readonly scale: number;
  readonly paused: boolean;
}

export interface IEmulatedNode {
  /** The full name: projects/…/locations/…/nodes/…. */
  readonly name: string;
  readonly state: string;
  readonly accelerator_type: string;
  readonly spot?: boolean;
}

export interface IQueuedResource {
  readonly name: string;
  readonly state: string;
  /** Full names of those of its nodes that exist. */
  readonly nodes?: readonly string[];
}

/** A pending fault. */
export interface IScriptedFault {
  readonly id?: number;
  /** The call that it hits; `*` for any call. */
  readonly method: string;
  readonly kind: string;
  /** How many calls it hits; null for all. */
  readonly times: number | null;
  readonly message?: string;
}

export interface ILinkFault {
  readonly verb: string;
  readonly ms?: number;
}

/** The SSH connections to one worker. */
export interface ILink {
  readonly node: string;
  readonly worker_id: number;
  readonly connections: number;
  readonly faults: readonly ILinkFault[];
}

export interface IWorkerFault {
  readonly verb: string;
  readonly factor?: number;
  readonly other_worker_id?: number;
}

/** The machine of one worker. */
export interface IWorker {
  readonly node: string;
  readonly worker_id: number;
  readonly faults: readonly IWorkerFault[];
}

/** Maintenance that is planned or in progress. */
export interface IMaintenance {
  /** Full name of the node. */
  readonly node: string;
  /** Seconds since the epoch, by the cloud's clock. */
  readonly starts: number;
  readonly is_ongoing?: boolean;
}

export interface ICapacity {
  readonly zone: string;
  readonly family: string;
  /** Null for unlimited. */
  readonly chips: number | null;
  readonly used?: number;
}

export interface IQuota {
  readonly quota_id: string;
  /** Its name as shown to the user. */
  readonly label: string;
  readonly zone?: string;
  readonly region?: string;
  /** −1 for unlimited. */
  readonly limit: number;
  readonly used?: number;
}

/** Permissions and limits of the project. */
export interface ISwitches {
  readonly api_enabled: boolean;
  readonly denied_permissions: readonly string[];
  readonly denied_locations: readonly string[];
  /** Types and generations that the project may request; null for all. */
  readonly allowlist: readonly string[] | null;
  readonly addresses_per_region: number | null;
  readonly creates_per_minute: number | null;
}

/** The cost of the emulated nodes so far and now. */
export interface ICosts {
  readonly total_usd: number;
  readonly usd_per_hour?: number;
  /** The number of nodes that are billed now. */
  readonly billing?: number;
}

export interface ICloud {
  readonly project: string;
  readonly clock: IClock;
  readonly nodes: readonly IEmulatedNode[];
  readonly queued_resources: readonly IQueuedResource[];
  readonly faults: readonly IScriptedFault[];
  readonly links: readonly ILink[];
  readonly workers: readonly IWorker[];
  readonly capacity: readonly ICapacity[];
  readonly quotas: readonly IQuota[];
  readonly switches: ISwitches;
  readonly maintenance: readonly IMaintenance[];
  readonly ledger: ICosts;
}

/** The state of the cloud with the browser's time at which it was valid, in milliseconds. */
export interface IDatedCloud extends ICloud {
  readonly received_ms: number;
}

const UNKNOWN: ICloud = {
  project: '',
  clock: { now: 0, scale: 1, paused: false },
  nodes: [],
  queued_resources: [],
  faults: [],
  links: [],
  workers: [],
  capacity: [],
  quotas: [],
  switches: {
    api_enabled: true,
    denied_permissions: [],
    denied_locations: [],
    allowlist: null,
    addresses_per_region: null,
    creates_per_minute: null
  },
  maintenance: [],
  ledger: { total_usd: 0 }
};

/** Fill in fields that an older emulator leaves out. */
export function asCloud(data: Partial<ICloud>): IDatedCloud {
  const switches = { ...UNKNOWN.switches, ...data.switches };
  return { ...UNKNOWN, ...data, switches, received_ms: Date.now() };
}

/** The emulated time at a time of the browser's clock, in seconds since the epoch. */
export function timeAt({ clock, received_ms }: IDatedCloud, now_ms: number): number {
  const passed_s = Math.max(0, now_ms - received_ms) / 1000;
  return clock.paused ? clock.now : clock.now + passed_s * clock.scale;
}

/** The last part of a resource's name, and its zone. */
export function placeOf(name: string): { readonly id: string; readonly zone: string } {
  const parts = name.split('/');
  return { id: parts[parts.length - 1], zone: parts[parts.indexOf('locations') + 1] ?? '' };
}
