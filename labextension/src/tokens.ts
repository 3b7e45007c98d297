/**
 * The tokens, command ids and interfaces that the parts of the extension share. Importing this module does nothing.
 *
 * The records of the REST API are in api.generated.ts.
 */

import { Kernel } from '@jupyterlab/services';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';
import {
  IError,
  IIntent,
  ILink,
  INewNode,
  INode,
  INodeList,
  IOffers,
  IStatus
} from './api.generated';

export const PANEL_ID = 'jupyter-tpu-panel';

export const FLEET_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/fleet/v1';

export const KERNEL_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/kernel/v1';

export const LINK_SCHEMA = 'https://events.jupyter.org/jupyter_tpu/link/v1';

/** The phase of an event of {@link KERNEL_SCHEMA}: the kernel ended with its node, and the notebook says so. */
export const NODE_ENDED = 'node_ended';

/** The phase of an event of {@link KERNEL_SCHEMA}: a user ended the kernel, for example to release its chips. */
export const KERNEL_ENDED = 'ended';

/** The phase of a kernel that did not start. */
export const KERNEL_NOT_STARTED = 'failed';

/** Ids of the extension's commands. */
export namespace CommandIDs {
  export const openPanel = 'tpu:open-panel';
  export const refresh = 'tpu:refresh';
  export const createNode = 'tpu:create-node';
  export const openForm = 'tpu:open-form';
  export const openConsole = 'tpu:open-console';
  export const copyCommand = 'tpu:copy-command';
  export const openNotebook = 'tpu:open-notebook';
  export const switchKernel = 'tpu:switch-kernel';
  export const stopNode = 'tpu:stop-node';
  export const startNode = 'tpu:start-node';
  export const deleteNode = 'tpu:delete-node';
  export const cancelCreation = 'tpu:cancel-creation';
  export const stopNodes = 'tpu:stop-nodes';
  export const changeAutostop = 'tpu:change-autostop';
  export const openKernel = 'tpu:open-kernel';
  export const restartKernel = 'tpu:restart-kernel';
  export const shutDownKernel = 'tpu:shut-down-kernel';
  export const dismissFailure = 'tpu:dismiss-failure';
}

/** Ids of the commands around the form for a new node. */
export namespace CreateCommandIDs {
  export const recreateNode = 'tpu:recreate-node';
  export const openExample = 'tpu:open-example';
  export const openWhenReady = 'tpu:open-when-ready';
  export const saveProfile = 'tpu:save-profile';
  export const deleteProfile = 'tpu:delete-profile';
}

/** Ids of the commands on the current notebook and its node. */
export namespace NotebookCommandIDs {
  export const runOnTpu = 'tpu:run-on-tpu';
  export const keepCurrentNode = 'tpu:keep-current-node';
}

/** Ids of the commands on recorded outputs. */
export namespace RestoreCommandIDs {
  export const restoreOutputs = 'tpu:restore-outputs';
  export const showOutputs = 'tpu:show-outputs';
  export const addCell = 'tpu:add-cell';
}

/** What went wrong, what exists now, what to do, and the original message of the other system. */
export type IProblem = Omit<IError, 'status'>;

/** The zone and name of a node, enough for a route. */
export interface INodeKey {
  readonly zone: string;
  readonly node_id: string;
}

export type Verb = IIntent['verb'];

/** What to create. */
export interface INodeSpec extends INewNode {
  readonly spot: boolean;
}

/** What opens on a new node as soon as it is READY. */
export interface IOpenChoice {
  readonly kind: 'none' | 'new' | 'example' | 'notebook';
  /** The file of an example or a notebook. */
  readonly path?: string;
  /** Whether all its cells are run at once. */
  readonly runsAll: boolean;
}

/** What the form for a new node starts with. */
export interface IFormRequest {
  /** Increases with each request. */
  readonly turn: number;
  readonly way: 'now' | 'search' | 'queue';
  readonly spec: Partial<INodeSpec>;
  /** What to open on the node; the form's own suggestion if undefined. */
  readonly open?: IOpenChoice;
}

/** A card whose form of auto-stop rules was opened by a command. */
export interface IRevealedCard {
  readonly key: string;
  /** Increases with each command. */
  readonly turn: number;
}

/** An event of {@link KERNEL_SCHEMA}: the progress of a kernel's start. */
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

/** An event of {@link FLEET_SCHEMA}: a change of a node or of a request about it. */
export interface IFleetEvent {
  readonly node_name: string;
  /** The node's state; empty if unknown. */
  readonly state: string;
}

/** An event of {@link LINK_SCHEMA}: the connection of a kernel to its node. */
export interface ILinkEvent extends ILink {
  readonly kernel_id: string;
  readonly kernel_name: string;
  readonly node_name: string;
}

/** The last list of nodes, with its age by the server's clock when it arrived. */
export interface IDatedList extends INodeList {
  /** Null before the first list. */
  readonly age_s: number | null;
  readonly received_ms: number;
}

/** State of the panel: no response yet, no server extension, or a first response. */
export type Phase = 'loading' | 'missing' | 'answered';

/** The state of the panel. */
export interface ITpuModel extends VDomRenderer.IModel {
  readonly phase: Phase;
  readonly status: IStatus | null;
  readonly list: IDatedList | null;
  readonly offers: IOffers | null;
  /** Why the last request failed; null if it succeeded. */
  readonly problem: IProblem | null;
  readonly offersProblem: IProblem | null;
  /** Actions that were refused at once, by the key of their node. */
  readonly refusals: ReadonlyMap<string, IProblem>;
  /** Keys of nodes with a request under way. */
  readonly busy: ReadonlySet<string>;
  readonly isFormOpen: boolean;
  /** What the open form starts with; null for the user's defaults and last choice. */
  readonly formRequest: IFormRequest | null;
  /** Keys of the nodes whose cards are open. */
  readonly openCards: ReadonlySet<string>;
  /** The card revealed last; null at first. */
  readonly revealedCard: IRevealedCard | null;
  /** The node that this page created last, a new object each time; its new card gets the focus. */
  readonly createdNode: INodeKey | null;
  /** Whether an open notebook is not restored, because several people edit it at once. */
  isCollaborative: boolean;
  /** The user's settings for new nodes: the form starts with them unless a choice is requested. */
  formDefaults: Partial<INodeSpec>;
  /** The user's idle timeout for new nodes, in seconds; 0 for the server's default. */
  idleDefault_s: number;
  /** Interval of requests while the panel is visible, in milliseconds. */
  interval_ms: number;
  /** Emitted when the server has accepted a new node of this page. */
  readonly nodeCreated: ISignal<ITpuModel, INodeKey>;
  /** Emitted when a kernelspec was added or removed. */
  readonly kernelspecsChanged: ISignal<ITpuModel, void>;
  /** Whether the panel is visible; nothing is polled otherwise. */
  isWatched: boolean;

  /** Whether the cloud is being asked at the user's request. */
  readonly isRefreshing: boolean;

  /** Request the list as the server has it. */
  refresh(): Promise<void>;
  /**
   * Drop all data and request status and list again, after the server has switched to another cloud, project or
   * account.
   */
  reload(): Promise<void>;
  /** Let the server ask the cloud, then request the new list. */
  refreshFromCloud(): Promise<void>;

  /** Open the form, with a choice if one is given. */
  toggleCard(key: INodeKey): void;
  /** Open the card of a node with the form of its auto-stop rules. */
  revealAutostop(key: INodeKey): void;

  openForm(request?: Omit<IFormRequest, 'turn'>): void;
  closeForm(): void;
  createNode(spec: INodeSpec): Promise<void>;
  deleteNode(key: INodeKey): Promise<void>;
  stopNode(key: INodeKey): Promise<void>;
  startNode(key: INodeKey): Promise<void>;
  /** Delete a failed intent. */
  dismissIntent(intentId: string): Promise<void>;
  /** Send a request for a node; if it is accepted, earlier failed creations of that name are dismissed. */
  attempt(nodeId: string, send: () => Promise<unknown>): Promise<void>;
  dismissRefusal(key: INodeKey): void;
  /** Drop the refusals with a code whose reason no longer applies. */
  dismissRefusals(code: string): void;
  findNode(key: INodeKey): INode | undefined;
  /** Whether a node is being created. */
  isCreating(key: INodeKey): boolean;
}

/** Restarts of kernels on nodes that the server refused; such a kernel keeps running. */
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
