/** Tokens and interfaces of the money sections. Importing this module does nothing. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import { Token } from '@lumino/coreutils';
import { ISpendHistoryModel } from '../spend/historymodel';
import { IProblem } from '../tokens';
import { MoneyClient } from './client';
import { Cuts } from './connections';
import { IAnswers, Part } from './parts';

/** Ids of the commands about money. The strings must not change: users may have keyboard shortcuts for them. */
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
  export const showSection = 'tpu:show-section';
  export const raiseBudget = 'tpu:raise-budget';
}

/** A response with its time by the server's and by the browser's clock. */
export interface IDated<T> {
  readonly data: T;
  /** The server's time when it responded, in seconds. */
  readonly server_s: number;
  /** The browser's time when the response arrived, in milliseconds. */
  readonly received_ms: number;
}

/** A part of the money sections: the last response, and the error if the last request failed. */
export interface IPart<T> {
  readonly dated: IDated<T> | null;
  readonly problem: IProblem | null;
}

export type IParts = { readonly [P in Part]: IPart<IAnswers[P]> };

/** Sections that can be opened. Data that only one section shows is requested only while it is open. */
export type SectionName = 'spend' | 'grants' | 'quota' | 'capacity' | 'cleanup' | 'audit';

/** A section that an error's action refers to. */
export interface IRevealed {
  readonly section: SectionName;
  /** Increases with each action. */
  readonly turn: number;
}

/** The state of the sections. */
export interface IMoneyModel extends VDomRenderer.IModel {
  readonly client: MoneyClient;
  readonly parts: IParts;
  readonly open: ReadonlySet<SectionName>;
  /** The lost connections to nodes. */
  readonly cuts: Cuts;
  /** Whether the panel is visible. */
  isWatched: boolean;
  /** Sections that the user has hidden; an action that leads to one shows it anyway. */
  hidden: ReadonlySet<SectionName>;
  /** Interval of requests while the panel is visible, in milliseconds. */
  interval_ms: number;
  /** How long before its end a node shows a warning, in seconds; 0 = never. */
  warning_s: number;

  /** Spending over time. */
  readonly history: ISpendHistoryModel;

  /** The zone last chosen in the form; empty at first. */
  readonly chosenZone: string;

  /** The section revealed last; null at first. */
  readonly revealed: IRevealed | null;

  chooseZone(zone: string): void;
  isShown(section: SectionName): boolean;
  toggle(section: SectionName): void;
  /** Open a section and move the keyboard focus to it. */
  reveal(section: SectionName): void;
  refresh(): Promise<void>;
}

export const IMoneyModel = new Token<IMoneyModel>(
  'jupyter-tpu:IMoneyModel',
  'Spending, auto-stop, quota and capacity.'
);
