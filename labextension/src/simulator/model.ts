/** State of the failure simulator: polls the emulated cloud while visible, and changes it. */

import { VDomModel } from '@jupyterlab/ui-components';
import { JSONObject } from '@lumino/coreutils';
import { Poll } from '@lumino/polling';
import { problemOf, TpuClient } from '../request';
import { IProblem } from '../tokens';
import { asCloud, ICloud, IDatedCloud } from './records';

/** The emulator runs on this machine, so frequent requests are cheap. */
const INTERVAL_MS = 2_000;
/** The longest interval to which polling backs off while the emulator does not respond. */
const MAX_INTERVAL_MS = 30_000;

/** A request to the control API. */
export interface IControlRequest {
  readonly method: 'POST' | 'DELETE';
  readonly part: string;
  readonly body?: JSONObject;
}

export class SimulatorModel extends VDomModel {
  constructor(private readonly _client: TpuClient) {
    super();
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:switchboard',
      factory: () => this._fetch(),
      frequency: { interval: INTERVAL_MS, backoff: true, max: MAX_INTERVAL_MS },
      linger: 0,
      standby: () => (this._isWatched ? 'when-hidden' : true)
    });
  }

  /** The last state of the cloud; null before the first response. */
  get cloud(): IDatedCloud | null {
    return this._cloud;
  }

  /** Why the last poll failed; null if it succeeded. */
  get problem(): IProblem | null {
    return this._problem;
  }

  /** Why the last change was refused; null if it was accepted. */
  get refusal(): IProblem | null {
    return this._refusal;
  }

  /** Whether a request is under way. */
  get isBusy(): boolean {
    return this._pending > 0;
  }

  get isWatched(): boolean {
    return this._isWatched;
  }

  set isWatched(value: boolean) {
    const isNews = value && !this._isWatched;
    this._isWatched = value;
    if (isNews) {
      void this.refresh();
    }
  }

  refresh(): Promise<void> {
    return this._poll.refresh();
  }

  dismissRefusal(): void {
    this._refusal = null;
    this.stateChanged.emit();
  }

  /** Send requests one after the other until one is refused; stores the refusal. */
  async send(...requests: readonly IControlRequest[]): Promise<void> {
    this._pending += 1;
    this._refusal = null;
    this.stateChanged.emit();
    try {
      for (const { method, part, body } of requests) {
        await this._client.emulator(part, { method, body: body && JSON.stringify(body) });
      }
    } catch (error) {
      this._refusal = problemOf(error);
    } finally {
      this._pending -= 1;
      await this.refresh();
    }
  }

  dispose(): void {
    this._poll.dispose();
    super.dispose();
  }

  private async _fetch(): Promise<void> {
    const turn = ++this._asked;
    try {
      const cloud = asCloud(await this._client.emulator<Partial<ICloud>>('state'));
      this._answer(turn, cloud, null);
    } catch (error) {
      this._answer(turn, this._cloud, problemOf(error));
      throw error;
    }
  }

  /** Handle a response. Responses can arrive out of order: one older than the last is dropped. */
  private _answer(turn: number, cloud: IDatedCloud | null, problem: IProblem | null): void {
    if (turn < this._answered || this.isDisposed) {
      return;
    }
    this._answered = turn;
    this._cloud = cloud;
    this._problem = problem;
    this.stateChanged.emit();
  }

  private readonly _poll: Poll<void>;
  private _cloud: IDatedCloud | null = null;
  private _problem: IProblem | null = null;
  private _refusal: IProblem | null = null;
  private _isWatched = false;
  private _pending = 0;
  private _asked = 0;
  private _answered = 0;
}
