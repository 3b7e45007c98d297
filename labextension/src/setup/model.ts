/**
 * State of the set-up: what is missing, which of the first steps is next, and whether the user tries the emulated
 * cloud.
 */

import { VDomModel } from '@jupyterlab/ui-components';
import { Poll } from '@lumino/polling';
import { ISetup, ISetupStep, ISetupValues } from '../api.generated';
import { problemOf, TpuClient } from '../request';
import { IProblem, ITpuModel } from '../tokens';
import { Busy, FirstStep, ISetupModel } from './tokens';

/** Interval of checks while something is missing: credentials, for example, may be added. */
const INTERVAL_MS = 15_000;
const MAX_INTERVAL_MS = 120_000;
const FINISHED = 'jupyter-tpu:first-steps-done';

/** Errors that the set-up explains better, together with what to do. */
const OF_SETUP: ReadonlySet<string> = new Set([
  'credentials_missing',
  'bad_input',
  'api_disabled',
  'permission_denied'
]);

/** The part of the browser's storage needed here. */
export type IStorage = Pick<Storage, 'getItem' | 'setItem'>;

export class SetupModel extends VDomModel implements ISetupModel {
  constructor(
    private readonly _client: TpuClient,
    private readonly _nodes: ITpuModel,
    private readonly _storage: IStorage
  ) {
    super();
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:setup',
      factory: () => this._tick(),
      frequency: { interval: INTERVAL_MS, backoff: true, max: MAX_INTERVAL_MS },
      linger: 0,
      standby: () => (this._isWorthChecking ? 'when-hidden' : true)
    });
    this._nodes.stateChanged.connect(this._onNodes, this);
  }

  get setup(): ISetup | null {
    return this._setup;
  }

  get isOpen(): boolean {
    return this._isOpen;
  }

  get busy(): Busy {
    return this._busy;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get failedKey(): ISetupStep['key'] | null {
    return this._failedKey;
  }

  get firstStep(): FirstStep {
    const { phase, status, list, problem } = this._nodes;
    if (phase !== 'answered' || !status || problem) {
      return 'none';
    }
    const error = status.error ?? list?.error;
    if (error) {
      return OF_SETUP.has(error.code) && !list?.nodes.length ? 'connect' : 'none';
    }
    if (this._isFinished || !list || list.age_s === null) {
      return 'none';
    }
    return list.nodes.length + list.intents.length === 0 ? 'create' : 'notebook';
  }

  get isFinished(): boolean {
    return this._isFinished;
  }

  get isWatched(): boolean {
    return this._isWatched;
  }

  set isWatched(value: boolean) {
    this._isWatched = value;
    this._checkIfWorth();
  }

  /** Start polling; until then the model sends no requests. */
  start(): void {
    void this._poll.start();
  }

  open(): void {
    this._isOpen = true;
    this.stateChanged.emit();
    void this.check();
  }

  close(): void {
    this._isOpen = false;
    this._clear();
    this.stateChanged.emit();
  }

  hideFirstSteps(): void {
    this._isFinished = true;
    this.stateChanged.emit();
  }

  /** Handle that kernels are running: the first one on a node finishes the first steps. */
  onKernels(names: readonly string[]): void {
    const specs = this._nodes.list?.nodes.map(({ kernelspec }) => kernelspec) ?? [];
    if (!this._isFinished && names.some(name => specs.includes(name))) {
      this.hideFirstSteps();
    }
  }

  async check(): Promise<void> {
    await this._run('check', async () => {
      this._setup = await this._client.request<ISetup>('setup');
    });
  }

  async perform(step: ISetupStep, values: ISetupValues): Promise<void> {
    await this._run('action', async () => {
      const init = { method: 'POST', body: JSON.stringify(values) };
      this._setup = await this._client.request<ISetup>(`setup/${step.action}`, init);
    });
    if (this._problem) {
      this._failedKey = step.key;
      this.stateChanged.emit();
    }
    await this._nodes.refresh();
  }

  startTrial(): Promise<void> {
    return this._switch('POST');
  }

  endTrial(): Promise<void> {
    return this._switch('DELETE');
  }

  dispose(): void {
    this._nodes.stateChanged.disconnect(this._onNodes, this);
    this._poll.dispose();
    super.dispose();
  }

  private async _switch(method: 'POST' | 'DELETE'): Promise<void> {
    await this._run('trial', async () => {
      await this._client.request('trial', { method });
      this._isOpen = false;
      await this._nodes.reload();
    });
  }

  /** Run one request at a time; a second one of the same kind would only repeat it. */
  private async _run(busy: Busy, send: () => Promise<void>): Promise<void> {
    if (this._busy !== null) {
      return;
    }
    this._busy = busy;
    this._clear();
    this.stateChanged.emit();
    try {
      await send();
    } catch (error) {
      this._problem = problemOf(error);
    } finally {
      this._busy = null;
      this.stateChanged.emit();
    }
  }

  private _clear(): void {
    this._problem = null;
    this._failedKey = null;
  }

  private get _isShown(): boolean {
    return this._isOpen || this.firstStep === 'connect';
  }

  private get _isWorthChecking(): boolean {
    return this._isWatched && this._isShown && !this._setup?.is_complete;
  }

  /**
   * Check the state; throws so that polling backs off. A refused action stays visible until the user does something.
   */
  private async _tick(): Promise<void> {
    if (this._isWorthChecking && !this._problem) {
      await this.check();
      if (this._problem) {
        throw new Error('The set-up was not checked.');
      }
    }
  }

  private _checkIfWorth(): void {
    if (this._isWorthChecking && this._setup === null && this._busy === null && !this._problem) {
      void this.check();
    }
  }

  private _onNodes(): void {
    const step = this.firstStep;
    if (step !== this._lastStep) {
      this._lastStep = step;
      this.stateChanged.emit();
    }
    this._checkIfWorth();
  }

  private set _isFinished(value: boolean) {
    this._finished = value;
    try {
      this._storage.setItem(FINISHED, String(value));
    } catch {
      // the storage is full or blocked: the first steps are shown again next time
    }
  }

  private get _isFinished(): boolean {
    if (this._finished === null) {
      this._finished = readFlag(this._storage);
    }
    return this._finished;
  }

  private readonly _poll: Poll<void>;
  private _setup: ISetup | null = null;
  private _busy: Busy = null;
  private _problem: IProblem | null = null;
  private _failedKey: ISetupStep['key'] | null = null;
  private _isOpen = false;
  private _isWatched = false;
  private _finished: boolean | null = null;
  private _lastStep: FirstStep = 'none';
}

function readFlag(storage: IStorage): boolean {
  try {
    return storage.getItem(FINISHED) === 'true';
  } catch {
    return false;
  }
}
