/** The words of the money sections that others use. Importing this module does nothing. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import { Token } from '@lumino/coreutils';
import { ISpendHistoryModel } from '../spend/historymodel';
import { IProblem } from '../tokens';
import { MoneyClient } from './client';
import { IAnswers, Part } from './parts';

/** Every act of the user about money is one of these. */
export namespace MoneyCommandIDs {
  export const keepRunning = 'tpu:keep-node';
  export const setAutostop = 'tpu:set-brakes';
  export const setRecovery = 'tpu:set-recovery';
  export const setBudget = 'tpu:set-budget';
  export const removeBudget = 'tpu:remove-budget';
  export const saveGrant = 'tpu:save-grant';
  export const removeGrant = 'tpu:remove-grant';
  export const search = 'tpu:search-node';
  export const cancelSearch = 'tpu:cancel-search';
  export const queue = 'tpu:queue-node';
  export const removeQueued = 'tpu:remove-queued-resource';
  export const cleanup = 'tpu:sweep';
  export const stopAll = 'tpu:panic';
}

/** A last answer, dated by the server's clock. */
export interface IDated<T> {
  readonly data: T;
  /** The server's time when it answered; seconds. */
  readonly server_s: number;
  /** The browser's time at that moment; milliseconds. */
  readonly received_ms: number;
}

/** A part of the faces: what was said last, and why nothing newer was. */
export interface IPart<T> {
  readonly dated: IDated<T> | null;
  readonly problem: IProblem | null;
}

export type IParts = { readonly [P in Part]: IPart<IAnswers[P]> };

/** Sections that can be opened; what only they show is asked for only while they are open. */
export type SectionName = 'spend' | 'grants' | 'quota' | 'capacity' | 'cleanup' | 'audit';

/** What the sections show, as it stands now. */
export interface IMoneyModel extends VDomRenderer.IModel {
  readonly client: MoneyClient;
  readonly parts: IParts;
  readonly open: ReadonlySet<SectionName>;
  /** Whether somebody looks at the panel. */
  isWatched: boolean;

  /** Money over time. */
  readonly past: ISpendHistoryModel;

  /** Where the user looked for a node last; empty before. */
  readonly chosenZone: string;

  chooseZone(zone: string): void;
  toggle(section: SectionName): void;
  refresh(): Promise<void>;
}

export const IMoneyModel = new Token<IMoneyModel>(
  'jupyter-tpu:IMoneyModel',
  'What the nodes cost, when they end, and what may be had.'
);
