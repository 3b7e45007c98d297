/** The words of the load of nodes that others use. Importing this module does nothing. */

import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';
import { IMetrics, IReleaseRequest, IReleaseResult } from '../api.generated';
import { IPart } from '../money/tokens';
import { INodeKey } from '../tokens';
import { ISeries } from './series';

/** Every act of the user on the chips is one of these. */
export namespace LoadCommandIDs {
  export const release = 'tpu:free-chips';
}

/** The load of one node, as it stands now. */
export interface INodeLoad {
  readonly part: IPart<IMetrics>;
  readonly series: ISeries;
  /** Whether a wish to free chips is on its way. */
  readonly isReleasing: boolean;
  readonly changed: ISignal<INodeLoad, void>;

  /** Ask once a second for as long as somebody looks, until what is returned is disposed of. */
  subscribe(workers: number): IDisposable;
  /** Ask once, now. */
  refresh(): Promise<void>;
  release(terms: IReleaseRequest): Promise<IReleaseResult>;
}

export interface ILoadModel {
  /** Whether somebody looks at the panel; nothing is polled otherwise. */
  isWatched: boolean;

  of(key: INodeKey): INodeLoad;
}

export const ILoadModel = new Token<ILoadModel>(
  'jupyter-tpu:ILoadModel',
  'How busy the chips of each node are, and who holds them.'
);
