/** State of the money sections: requests what is visible, stores the responses and notifies listeners. */

import { Event } from '@jupyterlab/services';
import { VDomModel } from '@jupyterlab/ui-components';
import { Debouncer, Poll, Throttler } from '@lumino/polling';
import { problemOf } from '../request';
import { WARNING_S, withWarnings } from '../autostop/rules';
import { SpendHistoryModel } from '../spend/historymodel';
import { isRunning } from '../spend/rates';
import {
  FLEET_SCHEMA,
  IFleetEvent,
  IKernelEvent,
  ILinkEvent,
  KERNEL_SCHEMA,
  LINK_SCHEMA
} from '../tokens';
import { MoneyClient } from './client';
import { afterKernel, afterLink, afterNode, Cuts } from './connections';
import { Part, waitingIn } from './parts';
import { IDated, IMoneyModel, IPart, IParts, IRevealed, SectionName } from './tokens';

/** Default interval while the panel is visible; the server's events cause further requests. */
const INTERVAL_MS = 15_000;
/** The longest interval to which polling backs off while the server does not respond. */
const MAX_INTERVAL_MS = 120_000;
/** Interval while only the status bar needs the data and no node stops soon. */
const UNWATCHED_MS = 60_000;
/** How long to collect events, which come in bursts, before one round of requests for all. */
const BURST_MS = 500;
/**
 * How long after the last event to request again: the ledger and auto-stop check a node within a second of its event,
 * and then ask its agent.
 */
const SETTLED_MS = 3_000;

/** Parts that the status bar and the cards of nodes need. */
const ALWAYS: readonly Part[] = ['spend', 'autostops'];
/** Parts that the panel always needs, whichever sections are open. */
const IN_PANEL: readonly Part[] = ['recovery', 'searches'];
const BY_SECTION: { readonly [name in SectionName]: readonly Part[] } = {
  spend: [],
  grants: ['grants'],
  quota: ['quota'],
  capacity: ['queue'],
  cleanup: ['cleanup'],
  audit: ['audit']
};

const NOT_LOADED: IPart<never> = { dated: null, problem: null };
const NOTHING_LOADED: IParts = {
  spend: NOT_LOADED,
  autostops: NOT_LOADED,
  recovery: NOT_LOADED,
  searches: NOT_LOADED,
  grants: NOT_LOADED,
  quota: NOT_LOADED,
  queue: NOT_LOADED,
  cleanup: NOT_LOADED,
  audit: NOT_LOADED
};

export class MoneyModel extends VDomModel implements IMoneyModel {
  /**
   * @param client the REST client
   * @param events the server's events, which say when new requests are worthwhile
   */
  constructor(
    readonly client: MoneyClient,
    events?: Event.Stream
  ) {
    super();
    this.history = new SpendHistoryModel(client, this);
    this._events = events;
    this._events?.connect(this._onEvent, this);
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:money',
      factory: () => this._tick(),
      frequency: { interval: INTERVAL_MS, backoff: true, max: MAX_INTERVAL_MS },
      linger: 0,
      standby: () => this._standby()
    });
    const refetch = (): Promise<void> => this.refresh();
    const refetchActivity = (): Promise<void> => this.refresh(['autostops']);
    this._refetchActivity = new Throttler(refetchActivity, { limit: BURST_MS, edge: 'trailing' });
    this._refetch = new Throttler(refetch, { limit: BURST_MS, edge: 'trailing' });
    this._settle = new Debouncer(refetch, SETTLED_MS);
    document.addEventListener('visibilitychange', this._onVisibility);
  }

  readonly history: SpendHistoryModel;

  get parts(): IParts {
    return this._parts;
  }

  get cuts(): Cuts {
    return this._cuts;
  }

  get open(): ReadonlySet<SectionName> {
    return this._open;
  }

  get revealed(): IRevealed | null {
    return this._revealed;
  }

  get hidden(): ReadonlySet<SectionName> {
    return this._hidden;
  }

  set hidden(sections: ReadonlySet<SectionName>) {
    this._hidden = sections;
    this.stateChanged.emit();
  }

  isShown(section: SectionName): boolean {
    return !this._hidden.has(section) || this._revealed?.section === section;
  }

  get interval_ms(): number {
    return this._poll.frequency.interval;
  }

  set interval_ms(value: number) {
    // the poll rejects an interval longer than its maximum
    const max = Math.max(MAX_INTERVAL_MS, value);
    this._poll.frequency = { ...this._poll.frequency, interval: value, max };
  }

  get warning_s(): number {
    return this._warning_s;
  }

  set warning_s(value: number) {
    this._warning_s = value;
    const { autostops } = this._parts;
    this._parts = { ...this._parts, autostops: withWarnings(autostops, value) };
    this.stateChanged.emit();
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

  get chosenZone(): string {
    return this._chosenZone;
  }

  chooseZone(zone: string): void {
    if (this._chosenZone !== zone) {
      this._chosenZone = zone;
      this.stateChanged.emit();
    }
  }

  /** Start polling; until then the model sends no requests. */
  start(): void {
    this._isDue = true;
    void this._poll.start();
  }

  /**
   * Request some parts, by default all visible ones, now, even during a round, whose responses may be older than the last change. A hidden
   * page does so once it is visible.
   */
  async refresh(parts: readonly Part[] = this._wanted): Promise<void> {
    if (document.hidden) {
      this._isDue = true;
    } else {
      await this._fetch(parts);
    }
  }

  /** Open or close a section. The data of an opened section is requested at once. */
  toggle(section: SectionName): void {
    const open = new Set(this._open);
    const isOpening = !open.delete(section);
    if (isOpening) {
      open.add(section);
      void this._fetch(BY_SECTION[section]);
    }
    this._open = open;
    this.stateChanged.emit();
  }

  reveal(section: SectionName): void {
    this._revealed = { section, turn: (this._revealed?.turn ?? 0) + 1 };
    if (this._open.has(section)) {
      this.stateChanged.emit();
    } else {
      this.toggle(section);
    }
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this._onVisibility);
    this._events?.disconnect(this._onEvent, this);
    this._refetch.dispose();
    this._refetchActivity.dispose();
    this._settle.dispose();
    this._poll.dispose();
    this.history.dispose();
    super.dispose();
  }

  /**
   * Whether something is running or may cost money, so that the status bar and the auto-stop warnings need fresh data.
   */
  private get _isRunning(): boolean {
    const spend = this._parts.spend.dated?.data;
    return spend !== undefined && isRunning(spend);
  }

  /** Whether a node stops soon, so that the countdown in its notebooks needs fresh data. */
  private get _isWarning(): boolean {
    const autostops = this._parts.autostops.dated?.data.nodes ?? [];
    return autostops.some(({ is_warning }) => is_warning);
  }

  /** Pause while the page is hidden; one round makes up for all those that it missed. */
  private _standby(): Poll.Standby | boolean {
    const isShown = this._isWatched || this._isRunning || this._isQueueing;
    const isWorthPolling = this._isDue || isShown;
    this._isDue ||= document.hidden && isWorthPolling;
    return isWorthPolling ? 'when-hidden' : true;
  }

  /** The parts that are visible. */
  private get _wanted(): readonly Part[] {
    const shown = [...this._open].filter(section => this.isShown(section));
    const sections = shown.flatMap(section => BY_SECTION[section]);
    const shownOnly = this._isWatched ? [...IN_PANEL, ...sections] : [];
    return [...new Set([...ALWAYS, ...shownOnly, ...this._wantedQueue])];
  }

  /**
   * The queue if it is wanted: each of its lists is a request to the cloud, sent once, and again only while something
   * waits.
   */
  private get _wantedQueue(): readonly Part[] {
    const { dated, problem } = this._parts.queue;
    const isUnknown = this._isWatched && !dated && !problem;
    return isUnknown || this._isQueueing ? ['queue'] : [];
  }

  private get _isQueueing(): boolean {
    const queue = this._parts.queue.dated?.data;
    return queue !== undefined && waitingIn(queue).length > 0;
  }

  /** Request the visible parts; throws if none could be loaded, so that polling backs off. */
  private async _tick(): Promise<void> {
    const isDue = this._isDue;
    const isOften = this._isWatched || this._isWarning;
    if (!isDue && !isOften && Date.now() - this._asked_ms < UNWATCHED_MS) {
      return;
    }
    this._isDue = false;
    if (!(await this._fetch(this._wanted))) {
      this._isDue ||= isDue;
      throw new Error('No part of the money sections was answered.');
    }
  }

  /** Request some parts; returns whether any succeeded. A failure of one does not affect the others. */
  private async _fetch(parts: readonly Part[]): Promise<boolean> {
    this._asked_ms = Date.now();
    const answers = await Promise.all(parts.map(part => this._fetchPart(part)));
    return answers.some(Boolean);
  }

  private async _fetchPart(part: Part): Promise<boolean> {
    const turn = ++this._turn;
    try {
      const dated = await this.client.part(part);
      this._answer(part, turn, { dated, problem: null });
      return true;
    } catch (error) {
      this._answer(part, turn, { dated: this._parts[part].dated, problem: problemOf(error) });
      return false;
    }
  }

  /** Handle a response. Responses can arrive out of order: one older than the last is dropped. */
  private _answer(part: Part, turn: number, answer: IPart<unknown>): void {
    if (this.isDisposed || turn < (this._answered.get(part) ?? 0)) {
      return;
    }
    this._answered.set(part, turn);
    const parts = { ...this._parts, [part]: answer };
    this._parts = { ...parts, autostops: withWarnings(parts.autostops, this._warning_s) };
    this.stateChanged.emit();
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id === FLEET_SCHEMA && event.kind === 'activity') {
      void this._refetchActivity.invoke();
    } else if (event.schema_id === FLEET_SCHEMA) {
      if (event.kind === 'cloud') {
        this._forget();
      }
      this._setCuts(afterNode(this._cuts, event as unknown as IFleetEvent));
      void this._refetch.invoke();
      void this._settle.invoke();
    } else if (event.schema_id === LINK_SCHEMA) {
      this._setCuts(afterLink(this._cuts, event as unknown as ILinkEvent));
    } else if (event.schema_id === KERNEL_SCHEMA) {
      this._setCuts(afterKernel(this._cuts, event as unknown as IKernelEvent));
    }
  }

  /** Request what a hidden page has missed as soon as it is visible. */
  private readonly _onVisibility = (): void => {
    if (this._isDue && !document.hidden) {
      void this._poll.refresh();
    }
  };

  /** Drop all data and open requests when the server has switched to another cloud. */
  private _forget(): void {
    const turn = ++this._turn;
    this._parts = NOTHING_LOADED;
    (Object.keys(NOTHING_LOADED) as Part[]).forEach(part => this._answered.set(part, turn));
    this.stateChanged.emit();
  }

  private _setCuts(cuts: Cuts): void {
    if (cuts !== this._cuts) {
      this._cuts = cuts;
      this.stateChanged.emit();
    }
  }

  private readonly _events: Event.Stream | undefined;
  private readonly _poll: Poll<void>;
  private readonly _refetch: Throttler<void>;
  private readonly _refetchActivity: Throttler<void>;
  private readonly _settle: Debouncer<void>;
  private readonly _answered = new Map<Part, number>();
  private _parts: IParts = NOTHING_LOADED;
  private _open: ReadonlySet<SectionName> = new Set<SectionName>(['spend']);
  private _hidden: ReadonlySet<SectionName> = new Set();
  private _revealed: IRevealed | null = null;
  private _warning_s = WARNING_S;
  private _cuts: Cuts = new Map();
  private _chosenZone = '';
  private _isWatched = false;
  /** Whether a round is due although nothing is visible: the first one, or one that a hidden page missed. */
  private _isDue = false;
  private _asked_ms = 0;
  private _turn = 0;
}

/** The server's time now, from the time in its response. */
export function serverNow(dated: IDated<unknown>, now_ms: number): number {
  return dated.server_s + (now_ms - dated.received_ms) / 1000;
}
