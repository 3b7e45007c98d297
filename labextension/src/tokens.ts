/**
 * The words that the parts of the extension share. Importing this module does nothing.
 *
 * Records are what the server half sends under `/jupyter-tpu/v1`, field by field (server/rest-api.yml).
 */

import { Kernel } from '@jupyterlab/services';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';

export const PANEL_ID = 'jupyter-tpu-panel';

export const FLEET_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/fleet/v1';

export const KERNEL_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/kernel/v1';

export const LINK_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/link/v1';

/** Every act of the user is one of these. */
export namespace CommandIDs {
  export const openPanel = 'tpu:open-panel';
  export const refresh = 'tpu:refresh';
  export const createNode = 'tpu:create-node';
  export const openNotebook = 'tpu:open-notebook';
  export const switchKernel = 'tpu:switch-kernel';
  export const stopNode = 'tpu:stop-node';
  export const startNode = 'tpu:start-node';
  export const deleteNode = 'tpu:delete-node';
  export const dismissFailure = 'tpu:dismiss-failure';
}

/** Acts on the outputs that a kernel's record has. */
export namespace RestoreCommandIDs {
  export const restoreOutputs = 'tpu:restore-outputs';
  export const showOutputs = 'tpu:show-outputs';
  export const addCell = 'tpu:add-cell';
}

/** What went wrong, what exists now, what to do, and the foreign system's own words. */
export interface IProblem {
  readonly code: string;
  readonly message: string;
  readonly exists: string;
  readonly hint: string;
  readonly raw: string;
}

export interface IStatus {
  readonly project: string;
  readonly endpoint: string;
  readonly emulated: boolean;
  /** Whether the emulated cloud can be broken from here. */
  readonly switchboard: boolean;
  readonly version: string;
  readonly error: IProblem | null;
}

/** Where a node is; enough to name it in a route. */
export interface INodeKey {
  readonly zone: string;
  readonly node_id: string;
}

export interface IPrice {
  readonly usd_per_hour: number;
  readonly as_of: string;
  readonly source: string;
}

export interface IWorker {
  readonly worker_id: number;
  readonly ip_address: string;
  readonly external_ip: string;
}

export interface IAccelerator {
  readonly generation: string;
  readonly chips: number;
  readonly tensorcores: number;
  readonly workers: number;
  readonly topology: string;
  readonly jax_devices: number;
}

export interface INode extends INodeKey {
  readonly name: string;
  readonly project: string;
  /** The API's word, such as `READY`. */
  readonly state: string;
  readonly health: string;
  readonly health_description: string;
  readonly accelerator_type: string;
  readonly accelerator: IAccelerator | null;
  readonly runtime_version: string;
  readonly spot: boolean;
  /** Absent where an older server does not tell. */
  readonly provisioning?: Provisioning;
  readonly create_time: string;
  readonly workers: readonly IWorker[];
  /** Made by jupyter_tpu; false for nodes that were made elsewhere. */
  readonly managed: boolean;
  readonly billing: boolean;
  readonly price: IPrice | null;
  readonly cost_usd: number | null;
  /** The kernelspec that runs notebooks on it, once there is one. */
  readonly kernelspec: string | null;
  readonly description: string;
}

export type Verb = 'create' | 'delete' | 'stop' | 'start';

/** Something the user asked for, and how far it has come. */
export interface IIntent extends INodeKey {
  readonly intent_id: string;
  readonly verb: Verb;
  readonly node_name: string;
  readonly phase: string;
  readonly message: string;
  readonly error: IProblem | null;
  readonly settled: boolean;
  readonly created_at: number;
  readonly updated_at: number;
}

export interface INodeList {
  /** Seconds since the epoch, by the server's clock; null when the cloud could not be asked at all. */
  readonly as_of: number | null;
  readonly nodes: readonly INode[];
  /** Zones that did not answer, so nodes in them are missing from the list. */
  readonly unreachable: readonly string[];
  /** What the user should know besides, such as a damaged journal. */
  readonly notices: readonly string[];
  readonly intents: readonly IIntent[];
  readonly error: IProblem | null;
}

/** One accelerator type in one zone. */
export interface IOffer {
  readonly accelerator_type: string;
  readonly generation: string;
  readonly chips: number;
  readonly workers: number;
  readonly topology: string;
  readonly description: string;
  readonly usd_per_hour: number | null;
  readonly usd_per_hour_spot: number | null;
  /** Absent where an older server does not tell. */
  readonly usd_per_hour_flex_start?: number | null;
  readonly price_as_of: string | null;
  readonly price_source: string | null;
  readonly runtime_versions: readonly string[];
}

export interface IOffers {
  readonly zones: { readonly [zone: string]: readonly IOffer[] };
  readonly default: {
    readonly zone: string;
    readonly accelerator_type: string;
    readonly runtime_version: string;
  };
}

/** On which terms a node is asked for. */
export type Provisioning = 'on-demand' | 'spot' | 'preemptible' | 'reserved' | 'flex-start';

/** What to create. */
export interface INodeSpec extends INodeKey {
  readonly accelerator_type: string;
  readonly runtime_version: string;
  readonly spot: boolean;
  /** Where `spot` does not say it all. */
  readonly provisioning?: Provisioning;
  /** Its workers get no external addresses. */
  readonly internal_ips?: boolean;
  /** The user knows that the price is not. */
  readonly accept_unknown_price?: boolean;
}

/** `data` of an event of {@link FLEET_SCHEMA}. */
export interface IFleetEvent {
  readonly kind: 'node' | 'intent' | 'list';
  readonly node_name: string;
  readonly state: string;
}

/** An event of {@link KERNEL_SCHEMA}: how far the start of a kernel has come. */
export interface IKernelEvent {
  readonly kernel_id: string;
  readonly kernel_name: string;
  readonly node_name: string;
  readonly phase: string;
  readonly message: string;
  readonly fraction: number | null;
  /** Empty when nothing failed. */
  readonly error_code: string;
}

/** How the server reaches a kernel's worker. The kernel runs on meanwhile. */
export interface ILink {
  readonly state: 'connecting' | 'live' | 'down' | 'resuming' | 'lost';
  /** Seconds since the epoch, by the server's clock. */
  readonly since: number;
  readonly message: string;
  /** Empty when nothing failed for good. */
  readonly error_code: string;
}

/** An event of {@link LINK_SCHEMA}: the link to a kernel's worker has changed. */
export interface ILinkEvent extends ILink {
  readonly kernel_id: string;
  readonly kernel_name: string;
  readonly node_name: string;
}

/** The last list of nodes, with its age by the server's clock when it came. */
export interface IDatedList extends INodeList {
  /** Null when nothing is known of the nodes. */
  readonly age_s: number | null;
  readonly received_ms: number;
}

/** Where the panel stands: nothing heard yet, no server half, or a first answer. */
export type Phase = 'loading' | 'missing' | 'answered';

/** What the panel shows, as it stands now. */
export interface ITpuModel extends VDomRenderer.IModel {
  readonly phase: Phase;
  readonly status: IStatus | null;
  readonly list: IDatedList | null;
  readonly offers: IOffers | null;
  /** Why the server could not be asked, last time; null when it answered. */
  readonly problem: IProblem | null;
  readonly offersProblem: IProblem | null;
  /** Acts that were refused at once, by the key of their node. */
  readonly refusals: ReadonlyMap<string, IProblem>;
  /** Keys of nodes for which an act is on its way to the server. */
  readonly busy: ReadonlySet<string>;
  readonly isFormOpen: boolean;
  /** Whether a notebook is open in which nobody restores outputs, since several people edit it at once. */
  isCollaborative: boolean;
  /** Emitted when a kernelspec has come or gone. */
  readonly kernelspecsChanged: ISignal<ITpuModel, void>;
  /** Whether somebody looks; nothing is polled otherwise. */
  isWatched: boolean;

  refresh(): Promise<void>;
  openForm(): void;
  closeForm(): void;
  createNode(spec: INodeSpec): Promise<void>;
  deleteNode(key: INodeKey): Promise<void>;
  stopNode(key: INodeKey): Promise<void>;
  startNode(key: INodeKey): Promise<void>;
  /** Forget a failed intent. */
  dismissIntent(intentId: string): Promise<void>;
  dismissRefusal(key: INodeKey): void;
  findNode(key: INodeKey): INode | undefined;
}

/** Restarts of kernels on nodes that the server has refused: such a kernel goes on. */
export interface IRefusedRestarts {
  /** Emitted once a kernel's connection to the page is being restored. */
  readonly refused: ISignal<IRefusedRestarts, Kernel.IKernelConnection>;
}

export const IRefusedRestarts = new Token<IRefusedRestarts>(
  'jupyter-tpu:IRefusedRestarts',
  'Restarts of kernels on nodes that the server has refused.'
);

export const ITpuModel = new Token<ITpuModel>(
  'jupyter-tpu:ITpuModel',
  'The nodes of the Cloud TPU project and what is being done to them.'
);
