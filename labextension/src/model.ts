/** State of the panel: polls the server extension, stores its responses and notifies listeners. */

import { Event } from '@jupyterlab/services';
import { VDomModel } from '@jupyterlab/ui-components';
import { Poll, Throttler } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';
import { INode, IOffers, IStatus } from './api.generated';
import { failedCreations, kernelspecsOf, keyOf } from './fleet';
import { problemOf, ServerExtensionMissing, TpuClient } from './request';
import {
  FLEET_SCHEMA,
  IDatedList,
  IFormRequest,
  INodeKey,
  INodeSpec,
  IProblem,
  IRevealedCard,
  ITpuModel,
  Phase
} from './tokens';

/** Default interval while the panel is visible; the server's events cause further requests. */
const INTERVAL_MS = 15_000;
/** The longest interval to which polling backs off while the server does not respond. */
const MAX_INTERVAL_MS = 120_000;
/** How long to collect events, which come in bursts, before one list is requested for all. */
const BURST_MS = 250;

export class TpuModel extends VDomModel implements ITpuModel {
  /**
   * @param client the REST client
   * @param events the server's events, which say when a new list is worthwhile
   */
  constructor(
    private readonly _client: TpuClient,
    events?: Event.Stream
  ) {
    super();
    this._events = events;
    this._events?.connect(this._onEvent, this);
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:nodes',
      factory: () => this._fetch(),
      frequency: { interval: INTERVAL_MS, backoff: true, max: MAX_INTERVAL_MS },
      linger: 0,
      standby: () => this._standby()
    });
    const refetch = async (): Promise<void> => {
      if (document.hidden) {
        this._isDue = true;
      } else {
        await this.refresh();
      }
    };
    this._refetch = new Throttler(refetch, { limit: BURST_MS, edge: 'trailing' });
    document.addEventListener('visibilitychange', this._onVisibility);
  }

  get phase(): Phase {
    return this._phase;
  }

  get status(): IStatus | null {
    return this._status;
  }

  get list(): IDatedList | null {
    return this._list;
  }

  get offers(): IOffers | null {
    return this._offers;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get offersProblem(): IProblem | null {
    return this._offersProblem;
  }

  get refusals(): ReadonlyMap<string, IProblem> {
    return this._refusals;
  }

  get busy(): ReadonlySet<string> {
    return this._busy;
  }

  get isFormOpen(): boolean {
    return this._isFormOpen;
  }

  get formRequest(): IFormRequest | null {
    return this._formRequest;
  }

  get openCards(): ReadonlySet<string> {
    return this._openCards;
  }

  get revealedCard(): IRevealedCard | null {
    return this._revealedCard;
  }

  get createdNode(): INodeKey | null {
    return this._createdNode;
  }

  get isCollaborative(): boolean {
    return this._isCollaborative;
  }

  set isCollaborative(value: boolean) {
    this._isCollaborative = value;
    this.stateChanged.emit();
  }

  formDefaults: Partial<INodeSpec> = {};
  idleDefault_s = 0;

  get nodeCreated(): ISignal<ITpuModel, INodeKey> {
    return this._nodeCreated;
  }

  get kernelspecsChanged(): ISignal<ITpuModel, void> {
    return this._kernelspecsChanged;
  }

  get isRefreshing(): boolean {
    return this._isRefreshing;
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

  /** Start polling; until then the model sends no requests. */
  start(): void {
    this._isDue = true;
    void this._poll.start();
  }

  refresh(): Promise<void> {
    this._isDue = true;
    return this._poll.refresh();
  }

  async reload(): Promise<void> {
    this._status = null;
    this._list = null;
    this.stateChanged.emit();
    await this.refresh();
    // the kernelspecs of nodes that are no longer listed are gone too
    this._kernelspecsChanged.emit();
  }

  /** Let the server ask the cloud. A failure becomes the model's problem and is not thrown. */
  async refreshFromCloud(): Promise<void> {
    if (this._isRefreshing) {
      return;
    }
    this._isRefreshing = true;
    this.stateChanged.emit();
    try {
      const status = await this._currentStatus();
      const list = await this._client.refreshNodes();
      // newer than any response to a poll in the meantime
      this._onAnswer(++this._asked, status, list);
    } catch (error) {
      this._onFailure(++this._asked, error);
    } finally {
      this._isRefreshing = false;
      this.stateChanged.emit();
    }
  }

  toggleCard(key: INodeKey): void {
    const next = new Set(this._openCards);
    if (!next.delete(keyOf(key))) {
      next.add(keyOf(key));
    }
    this._openCards = next;
    this.stateChanged.emit();
  }

  revealAutostop(key: INodeKey): void {
    this._openCards = new Set([...this._openCards, keyOf(key)]);
    this._revealedCard = { key: keyOf(key), turn: (this._revealedCard?.turn ?? 0) + 1 };
    this.stateChanged.emit();
  }

  get interval_ms(): number {
    return this._poll.frequency.interval;
  }

  set interval_ms(value: number) {
    // the poll rejects an interval longer than its maximum
    const max = Math.max(MAX_INTERVAL_MS, value);
    this._poll.frequency = { ...this._poll.frequency, interval: value, max };
  }

  openForm(request?: Omit<IFormRequest, 'turn'>): void {
    this._isFormOpen = true;
    this._formTurn += 1;
    this._formRequest = request ? { ...request, turn: this._formTurn } : null;
    void this._fetchOffers();
    this.stateChanged.emit();
  }

  closeForm(): void {
    this._isFormOpen = false;
    this.stateChanged.emit();
  }

  async createNode(spec: INodeSpec): Promise<void> {
    await this.attempt(spec.node_id, () => this._client.createNode(spec));
    this._createdNode = spec;
    this._nodeCreated.emit(spec);
    this.closeForm();
    await this.refresh();
  }

  deleteNode(key: INodeKey): Promise<void> {
    return this._run(key, () => this._client.deleteNode(key));
  }

  stopNode(key: INodeKey): Promise<void> {
    return this._run(key, () => this._client.stopNode(key));
  }

  startNode(key: INodeKey): Promise<void> {
    return this._run(key, () => this._client.startNode(key));
  }

  async dismissIntent(intentId: string): Promise<void> {
    await this._client.dismissIntent(intentId);
    await this.refresh();
  }

  async attempt(nodeId: string, send: () => Promise<unknown>): Promise<void> {
    const failed = this._list ? failedCreations(this._list) : [];
    const earlier = failed.filter(({ node_id }) => node_id === nodeId);
    await send();
    await Promise.allSettled(earlier.map(({ intent_id }) => this._client.dismissIntent(intent_id)));
  }

  dismissRefusal(key: INodeKey): void {
    this._refusals.delete(keyOf(key));
    this.stateChanged.emit();
  }

  dismissRefusals(code: string): void {
    for (const [key, problem] of this._refusals) {
      if (problem.code === code) {
        this._refusals.delete(key);
      }
    }
    this.stateChanged.emit();
  }

  findNode(key: INodeKey): INode | undefined {
    return this._list?.nodes.find(node => keyOf(node) === keyOf(key));
  }

  isCreating(key: INodeKey): boolean {
    return (this._list?.intents ?? []).some(
      intent => !intent.settled && intent.verb === 'create' && keyOf(intent) === keyOf(key)
    );
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this._onVisibility);
    this._events?.disconnect(this._onEvent, this);
    this._refetch.dispose();
    this._poll.dispose();
    super.dispose();
  }

  /** Run one action at a time per node; a refusal is shown on the node's card. */
  private async _run(key: INodeKey, send: () => Promise<unknown>): Promise<void> {
    const word = keyOf(key);
    if (this._busy.has(word)) {
      return;
    }
    this._busy.add(word);
    this._refusals.delete(word);
    this.stateChanged.emit();
    try {
      await send();
    } catch (error) {
      this._refusals.set(word, problemOf(error));
    } finally {
      this._busy.delete(word);
      this.stateChanged.emit();
    }
    await this.refresh();
  }

  /** Whether polling is useful; otherwise only an action of the user sends a request. */
  private get _isWorthPolling(): boolean {
    return this._isWatched && this._phase !== 'missing';
  }

  /** Pause while the page is hidden; one list makes up for all those that it missed. */
  private _standby(): Poll.Standby | boolean {
    this._isDue ||= document.hidden && this._isWorthPolling;
    return this._isDue || this._isWorthPolling ? 'when-hidden' : true;
  }

  /** Send one request; throws so that polling backs off. */
  private async _fetch(): Promise<void> {
    const turn = ++this._asked;
    this._isDue = false;
    try {
      const status = await this._currentStatus();
      const list = await this._client.nodes();
      this._onAnswer(turn, status, list);
    } catch (error) {
      this._onFailure(turn, error);
      throw error;
    }
  }

  /** The status, requested again only after an error: credentials, for example, may have been added. */
  private async _currentStatus(): Promise<IStatus> {
    return this._status && !this._status.error ? this._status : this._client.status();
  }

  /** Handle a response. Responses can arrive out of order: one older than the last is dropped. */
  private _onAnswer(turn: number, status: IStatus, list: IDatedList): void {
    if (turn < this._answered) {
      return;
    }
    const before = this._list ? kernelspecsOf(this._list) : '';
    this._answered = turn;
    this._phase = 'answered';
    this._status = status;
    this._list = list;
    this._problem = null;
    this.stateChanged.emit();
    if (kernelspecsOf(list) !== before) {
      this._kernelspecsChanged.emit();
    }
  }

  private _onFailure(turn: number, error: unknown): void {
    if (turn < this._answered) {
      return;
    }
    this._answered = turn;
    this._phase = error instanceof ServerExtensionMissing ? 'missing' : 'answered';
    this._problem = problemOf(error);
    this.stateChanged.emit();
  }

  private async _fetchOffers(): Promise<void> {
    this._offersProblem = null;
    try {
      this._offers = await this._client.offers();
    } catch (error) {
      this._offersProblem = problemOf(error);
    }
    this.stateChanged.emit();
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    const isNews = event.schema_id === FLEET_SCHEMA && event.kind !== 'activity';
    if (!isNews) {
      return;
    }
    if (event.kind === 'cloud') {
      void this.reload();
    } else {
      void this._refetch.invoke();
    }
  }

  /** Request what a hidden page has missed as soon as it is visible. */
  private readonly _onVisibility = (): void => {
    if (this._isDue && !document.hidden) {
      void this.refresh();
    }
  };

  private readonly _events: Event.Stream | undefined;
  private readonly _poll: Poll<void>;
  private readonly _refetch: Throttler<void>;
  private readonly _nodeCreated = new Signal<this, INodeKey>(this);
  private readonly _kernelspecsChanged = new Signal<this, void>(this);
  private readonly _refusals = new Map<string, IProblem>();
  private readonly _busy = new Set<string>();
  private _phase: Phase = 'loading';
  private _status: IStatus | null = null;
  private _list: IDatedList | null = null;
  private _offers: IOffers | null = null;
  private _problem: IProblem | null = null;
  private _offersProblem: IProblem | null = null;
  private _isRefreshing = false;
  private _isFormOpen = false;
  private _formRequest: IFormRequest | null = null;
  private _formTurn = 0;
  private _openCards: ReadonlySet<string> = new Set<string>();
  private _revealedCard: IRevealedCard | null = null;
  private _createdNode: INodeKey | null = null;
  private _isCollaborative = false;
  private _isWatched = false;
  private _isDue = false;
  private _asked = 0;
  private _answered = 0;
}
