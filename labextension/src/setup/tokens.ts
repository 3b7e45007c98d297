/** The token, command ids and interfaces of the set-up. Importing this module does nothing. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import { Token } from '@lumino/coreutils';
import { ISetup, ISetupStep, ISetupValues } from '../api.generated';
import { IProblem } from '../tokens';

export namespace SetupCommandIDs {
  export const open = 'tpu:set-up';
  export const perform = 'tpu:perform-set-up';
  export const startTrial = 'tpu:try-emulated-cloud';
  export const endTrial = 'tpu:use-own-cloud';
}

/**
 * The next of the three first steps. None once all are done or the user has hidden them, but `connect` whenever there
 * is no connection to the cloud.
 */
export type FirstStep = 'connect' | 'create' | 'notebook' | 'none';

/** What the user waits for: a check, the action of a step, or the emulated cloud. */
export type Busy = 'check' | 'action' | 'trial' | null;

/** State of the set-up. */
export interface ISetupModel extends VDomRenderer.IModel {
  /** The steps as last checked; null before the first check. */
  readonly setup: ISetup | null;
  readonly firstStep: FirstStep;
  /** Whether the first steps were finished once, or hidden. */
  readonly isFinished: boolean;
  /** Whether the user has opened the set-up. */
  readonly isOpen: boolean;
  readonly busy: Busy;
  /** Why the last request failed. */
  readonly problem: IProblem | null;
  /** The step whose action failed; null if another request failed. */
  readonly failedKey: ISetupStep['key'] | null;
  /** Whether the panel is visible; nothing is checked otherwise. */
  isWatched: boolean;

  open(): void;
  close(): void;
  /** Hide the first steps for good. */
  hideFirstSteps(): void;
  check(): Promise<void>;
  /** Perform the action of a step. A refusal becomes the model's problem and is not thrown. */
  perform(step: ISetupStep, values: ISetupValues): Promise<void>;
  startTrial(): Promise<void>;
  endTrial(): Promise<void>;
}

export const ISetupModel = new Token<ISetupModel>(
  'jupyter-tpu:ISetupModel',
  'The set-up of the Cloud TPU project, and the emulated cloud.'
);
