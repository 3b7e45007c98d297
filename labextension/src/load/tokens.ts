/** Tokens and interfaces of the load of nodes. Importing this module does nothing. */

import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';
import { IMetrics, IReleaseRequest, IReleaseResult } from '../api.generated';
import { IPart } from '../money/tokens';
import { INodeKey } from '../tokens';
import { ISeries } from './series';

/** Ids of the commands on the chips. The strings must not change: users may have keyboard shortcuts for them. */
export namespace LoadCommandIDs {
  export const release = 'tpu:free-chips';
}

/** The load of one node. */
export interface INodeLoad {
  readonly part: IPart<IMetrics>;
  readonly series: ISeries;
  /** Whether processes are being released. */
  readonly isReleasing: boolean;
  readonly changed: ISignal<INodeLoad, void>;

  /** Request once a second until the result is disposed. */
  subscribe(workers: number): IDisposable;
  /** Request the newest values at a longer interval, without their history, until the result is disposed. */
  glance(): IDisposable;
  /** Request once, now. */
  refresh(): Promise<void>;
  release(terms: IReleaseRequest): Promise<IReleaseResult>;
}

export interface ILoadModel {
  /** Whether the panel is visible; nothing is polled otherwise. */
  isWatched: boolean;

  of(key: INodeKey): INodeLoad;
}

export const ILoadModel = new Token<ILoadModel>(
  'jupyter-tpu:ILoadModel',
  'The load of the chips of each node, and the processes that use them.'
);
