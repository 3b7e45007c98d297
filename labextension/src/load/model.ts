/** The load of nodes: polled once a second while visible, and not at all otherwise. */

import { Poll } from '@lumino/polling';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { IMetrics, IReleaseRequest, IReleaseResult } from '../api.generated';
import { keyOf } from '../fleet';
import { IPart } from '../money/tokens';
import { problemOf } from '../request';
import { INodeKey } from '../tokens';
import { ISpan, LoadClient } from './client';
import { appendCurrent, ISeries, NO_SERIES, seriesOf } from './series';
import { ILoadModel, INodeLoad } from './tokens';

/** Interval of requests: the agents sample once a second. */
const INTERVAL_MS = 1_000;
/** Interval for closed cards, because many of them may be visible. */
const GLANCE_MS = 5_000;
/** The longest interval to which polling backs off while the server does not respond. */
const MAX_INTERVAL_MS = 30_000;
/** The agents keep an hour of history. */
const HISTORY_S = 3_600;
const MAX_POINTS = 360;
const MIN_POINTS = 60;
/** The most points of all workers together, so that the first response of a large slice stays small. */
const POINTS_OF_ALL = 3_600;

export class LoadModel implements ILoadModel {
  constructor(private readonly _client: LoadClient) {}

  get isWatched(): boolean {
    return this._isWatched;
  }

  set isWatched(value: boolean) {
    this._isWatched = value;
    this._loads.forEach(load => (load.isWatched = value));
  }

  of(key: INodeKey): INodeLoad {
    const word = keyOf(key);
    const load = this._loads.get(word) ?? new NodeLoad(this._client, key);
    load.isWatched = this._isWatched;
    this._loads.set(word, load);
    return load;
  }

  private readonly _loads = new Map<string, NodeLoad>();
  private _isWatched = false;
}

class NodeLoad implements INodeLoad {
  constructor(
    private readonly _client: LoadClient,
    { zone, node_id }: INodeKey
  ) {
    this._key = { zone, node_id };
  }

  get part(): IPart<IMetrics> {
    return this._part;
  }

  get series(): ISeries {
    return this._series;
  }

  get changed(): ISignal<INodeLoad, void> {
    return this._changed;
  }

  set isWatched(value: boolean) {
    if (value !== this._isWatched) {
      this._isWatched = value;
      this._follow();
    }
  }

  subscribe(workers: number): IDisposable {
    this._subscribers += 1;
    this._points = pointsFor(workers);
    this._follow();
    return new DisposableDelegate(() => {
      this._subscribers -= 1;
      this._follow();
    });
  }

  glance(): IDisposable {
    this._glances += 1;
    this._follow();
    return new DisposableDelegate(() => {
      this._glances -= 1;
      this._follow();
    });
  }

  /** Request the metrics once; errors are reported by `part`. */
  refresh(): Promise<void> {
    return this._poll ? this._poll.refresh() : this._fetch().catch(() => undefined);
  }

  get isReleasing(): boolean {
    return this._releasing > 0;
  }

  async release(terms: IReleaseRequest): Promise<IReleaseResult> {
    this._count(+1);
    try {
      return await this._client.release(this._key, terms);
    } finally {
      this._count(-1);
    }
  }

  private _count(wishes: number): void {
    this._releasing += wishes;
    this._changed.emit();
  }

  /** Poll only while the load is visible. The first response to a new subscriber includes the missed history. */
  private _follow(): void {
    const interval = this._interval;
    if (interval === (this._poll?.frequency.interval ?? null)) {
      return;
    }
    this._poll?.dispose();
    this._poll = interval === null ? null : this._newPoll(interval);
    this._isBehind = interval !== GLANCE_MS;
    void this._poll?.start();
  }

  /** The current interval; null while the load is not visible. */
  private get _interval(): number | null {
    if (!this._isWatched) {
      return null;
    }
    return this._subscribers > 0 ? INTERVAL_MS : this._glances > 0 ? GLANCE_MS : null;
  }

  private _newPoll(interval: number): Poll<void> {
    return new Poll({
      auto: false,
      name: `jupyter-tpu:load ${keyOf(this._key)}`,
      factory: () => this._fetch(),
      frequency: { interval, backoff: true, max: MAX_INTERVAL_MS },
      linger: 0,
      standby: () => this._standby()
    });
  }

  /** Pause while the page is hidden, and note that its history was missed. */
  private _standby(): Poll.Standby {
    this._isBehind ||= document.hidden && this._subscribers > 0;
    return 'when-hidden';
  }

  /** Send one request; throws so that polling backs off. */
  private async _fetch(): Promise<void> {
    const turn = ++this._asked;
    const span: ISpan | null = this._isBehind
      ? { history_s: HISTORY_S, points: this._points }
      : null;
    try {
      const dated = await this._client.metrics(this._key, span);
      this._answer(turn, { dated, problem: null }, span);
    } catch (error) {
      this._answer(turn, { dated: this._part.dated, problem: problemOf(error) }, null);
      throw error;
    }
  }

  /** Handle a response. Responses can arrive out of order: one older than the last is dropped. */
  private _answer(turn: number, part: IPart<IMetrics>, span: ISpan | null): void {
    if (turn < this._answered) {
      return;
    }
    this._answered = turn;
    this._part = part;
    if (part.dated && !part.problem) {
      const { data, server_s } = part.dated;
      const before = span ? seriesOf(data, span.history_s / span.points) : this._series;
      this._isBehind &&= span === null;
      this._series = appendCurrent(before, data, data.as_of ?? server_s, HISTORY_S);
    }
    this._changed.emit();
  }

  private readonly _key: INodeKey;
  private readonly _changed = new Signal<this, void>(this);
  private _part: IPart<IMetrics> = { dated: null, problem: null };
  private _series = NO_SERIES;
  private _poll: Poll<void> | null = null;
  private _points = MAX_POINTS;
  private _subscribers = 0;
  private _glances = 0;
  private _releasing = 0;
  private _isWatched = false;
  private _isBehind = true;
  private _asked = 0;
  private _answered = 0;
}

function pointsFor(workers: number): number {
  const each = Math.floor(POINTS_OF_ALL / Math.max(1, workers));
  return Math.min(MAX_POINTS, Math.max(MIN_POINTS, each));
}
