/** Restores the outputs that a notebook missed, and continues with live ones. */

import { DocumentRegistry } from '@jupyterlab/docregistry';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { problemOf } from '../request';
import { IProblem } from '../tokens';
import { markUntrusted } from './cell';
import { dropDuplicates } from './duplicates';
import { LiveRuns } from './live';
import { NotebookCells, NotebookContext } from './notebook';
import { planRestore } from './plan';
import { IOutputsAnswer, IRecordedRequest, parentOf } from './records';
import { Run } from './run';
import { SeenRequests } from './seen';

/** The routes of the server extension and of Jupyter that a notebook needs. */
export interface IRecordSource {
  /** Whether a kernel can have a record at all. */
  hasRecord(kernelName: string): boolean;
  /** Whether outputs from nodes are treated as untrusted. */
  readonly isUntrusted: boolean;
  /** The recorded requests: all of them, or only those with the given ids. */
  outputs(kernelId: string, msgIds: readonly string[]): Promise<IOutputsAnswer>;
  /** Whether other front ends have the kernel open as well. */
  isShared(kernel: Kernel.IKernelConnection): Promise<boolean>;
}

/** The wait before a failed request is repeated, doubled each time up to a maximum. */
const FIRST_WAIT_MS = 1_000;
const MAX_WAIT_MS = 60_000;

/** States of a kernel whose process has ended. */
const ENDED: readonly Kernel.Status[] = ['restarting', 'autorestarting', 'terminating', 'dead'];

/** Restores the outputs of one document, because several views of a notebook share its cells. */
export class NotebookRestorer implements IDisposable {
  constructor(
    private readonly _context: NotebookContext,
    private readonly _source: IRecordSource,
    private readonly _seen: SeenRequests
  ) {
    this._cells = new NotebookCells(this._context);
    const { model, saveState, sessionContext } = this._context;
    model.cells.changed.connect(this._onCells, this);
    saveState.connect(this._onSave, this);
    sessionContext.kernelChanged.connect(this._onKernel, this);
    this._context.disposed.connect(this.dispose, this);
    this._listenTo(sessionContext.session?.kernel ?? null);
  }

  /** Emitted when any property has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The number of restored cells. */
  get restoredCells(): number {
    return this._restored.size;
  }

  /** Runs whose cells are not in the notebook, also those of kernels that it had before. */
  get unplaced(): readonly Run[] {
    const isKnown = (run: Run): boolean => this._live?.has(run.msgId) ?? false;
    const earlier = this._earlier.flatMap(({ unplaced }) => unplaced);
    return [...earlier.filter(run => !isKnown(run)), ...(this._live?.unplaced ?? [])];
  }

  /** Requests whose outputs are shown in shortened form. */
  get shortened(): readonly IRecordedRequest[] {
    return [...this._shortened.values()];
  }

  /** Why the last request failed. */
  get problem(): IProblem | null {
    return this._problem;
  }

  get kernelId(): string {
    return this._kernel?.id ?? '';
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  addPanel(panel: NotebookPanel): void {
    this._cells.addPanel(panel);
    panel.disposed.connect(() => {
      this._cells.removePanel(panel);
      this._onCells();
    });
  }

  /** Request the outputs that the notebook missed; with `all`, also those that it had when it was saved. */
  async restore(all = false): Promise<void> {
    this._isWanted = true;
    await this._context.ready;
    window.clearTimeout(this._timer);
    const kernel = this._kernel;
    if (kernel && !this._isDisposed && this._source.hasRecord(kernel.name)) {
      await this._request(kernel, [], all ? null : this._seen.all());
    }
  }

  /** Undo the effect of a restart that was refused: the next restore brings the runs back. */
  forgetEnded(): void {
    this._live?.forget(this._ended);
    this._ended.forEach(msgId => this._lost.add(msgId));
    this._ended = [];
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    window.clearTimeout(this._timer);
    this._listenTo(null);
    Signal.clearData(this);
  }

  private _onKernel(): void {
    const kernel = this._context.sessionContext.session?.kernel ?? null;
    if (kernel !== this._kernel) {
      this._forget();
      this._listenTo(kernel);
      void (this._isWanted && this.restore());
      this._changed.emit();
    }
  }

  /** Discard the state of the previous kernel. */
  private _forget(): void {
    window.clearTimeout(this._timer);
    this._setProblem(null);
    this._restored.clear();
    this._shortened.clear();
  }

  private _listenTo(kernel: Kernel.IKernelConnection | null): void {
    this._live?.end();
    if (this._live && this._live.unplaced.length > 0) {
      this._earlier.push(this._live); // the record may have gone with its node
    }
    this._kernel?.anyMessage.disconnect(this._onMessage, this);
    this._kernel?.iopubMessage.disconnect(this._onHandled, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    this._kernel = kernel;
    this._pending = [];
    this._live = kernel && new LiveRuns(kernel, this._cells, this._actions(kernel));
    kernel?.anyMessage.connect(this._onMessage, this);
    kernel?.iopubMessage.connect(this._onHandled, this);
    kernel?.statusChanged.connect(this._onStatus, this);
  }

  private _actions(kernel: Kernel.IKernelConnection): LiveRuns['_actions'] {
    return {
      beforeOutputs: cell => void (this._source.isUntrusted && markUntrusted(cell)),
      onWhole: msgId => this._settled.add(msgId),
      onTorn: msgId => void this._request(kernel, [msgId], NONE)
    };
  }

  private async _request(
    kernel: Kernel.IKernelConnection,
    msgIds: readonly string[],
    seen: Seen
  ): Promise<void> {
    this._asking += 1;
    try {
      await this._read(kernel, msgIds, seen);
      this._setProblem(null);
    } catch (error) {
      this._onFailure(kernel, problemOf(error));
    } finally {
      this._asking -= 1;
      this._drain();
      this._changed.emit();
    }
  }

  /** Restore the recorded outputs. A request that cannot be read is reported and does not block the others. */
  private async _read(
    kernel: Kernel.IKernelConnection,
    msgIds: readonly string[],
    seen: Seen
  ): Promise<void> {
    const [isShared, answer] = await Promise.all([
      this._source.isShared(kernel),
      this._source.outputs(kernel.id, msgIds)
    ]);
    this._cells.isShared = isShared;
    const unread = await this._onAnswer(kernel, answer, seen);
    this._changed.emit();
    const failures: unknown[] = [];
    for (const msgId of msgIds.length === 0 ? unread : []) {
      await this._read(kernel, [msgId], seen).catch(error => failures.push(error));
    }
    if (failures.length > 0) {
      throw failures[0];
    }
  }

  /** Handle a response; returns the requests whose outputs must be requested one by one. */
  private async _onAnswer(
    kernel: Kernel.IKernelConnection,
    answer: IOutputsAnswer,
    seen: Seen
  ): Promise<readonly string[]> {
    const live = this._live;
    if (kernel !== this._kernel || !live) {
      return [];
    }
    const plan = planRestore(answer.requests, {
      cells: this._cells.now,
      keepsIds: this._cells.keepsIds,
      session: kernel.clientId,
      wantsAll: seen === null,
      taken: live.taken,
      isLost: msgId => this._lost.has(msgId),
      isSeen: msgId => seen?.has(msgId) || live.has(msgId)
    });
    for (const { cellId, request } of [...plan.fill, ...plan.follow]) {
      this._lost.delete(request.msg_id);
      this._shortened.delete(cellId);
      if (request.omitted_bytes > 0) {
        this._shortened.set(cellId, request);
      }
    }
    (await live.apply(plan, answer.seq)).forEach(cellId => this._restored.add(cellId));
    return plan.unread;
  }

  /**
   * Handle a failed request: a kernel without a record is not requested again, an unreachable one until it responds.
   */
  private _onFailure(kernel: Kernel.IKernelConnection, problem: IProblem): void {
    if (kernel === this._kernel && !NO_RECORD.includes(problem.code)) {
      this._setProblem(problem);
      this._wait = Math.min(this._wait * 2, MAX_WAIT_MS);
      window.clearTimeout(this._timer);
      this._timer = window.setTimeout(() => void this.restore(), this._wait);
    }
  }

  private _setProblem(problem: IProblem | null): void {
    this._wait = problem ? this._wait : FIRST_WAIT_MS;
    this._problem = problem;
  }

  private _onMessage(kernel: Kernel.IKernelConnection, args: Kernel.IAnyMessageArgs): void {
    if (args.direction === 'send') {
      this._onSend(kernel, args.msg);
    } else if (args.msg.channel === 'iopub' || args.msg.channel === 'stdin') {
      this._pending.push(args.msg);
      this._drain();
    }
  }

  private _onSend(
    sender: Kernel.IKernelConnection,
    { header, metadata }: KernelMessage.IMessage
  ): void {
    const { cellId } = metadata as { cellId?: unknown };
    if (header.msg_type === 'execute_request' && typeof cellId === 'string') {
      this._own.add(header.msg_id);
      [...this._earlier, this._live].forEach(runs => runs?.leave(cellId));
      dropDuplicates(sender, header.msg_id);
      if (this._shortened.delete(cellId)) {
        this._changed.emit();
      }
    }
  }

  private _drain(): void {
    while (this._asking === 0 && this._pending.length > 0) {
      this._live?.onMessage(this._pending.shift() as KernelMessage.IMessage);
    }
  }

  /** Handle that the kernel is idle again: the requests of this page are then complete in the notebook. */
  private _onHandled(_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const parent = parentOf(message);
    const isIdle = KernelMessage.isStatusMsg(message) && message.content.execution_state === 'idle';
    if (isIdle && this._own.delete(parent)) {
      this._settled.add(parent);
    }
  }

  private _onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (ENDED.includes(status)) {
      this._ended = [...this._own, ...(this._live?.end() ?? [])];
    }
  }

  private _onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      this._saving = [...this._settled];
    } else if (state === 'completed' && this._saving.length > 0) {
      this._seen.add(this._saving);
      this._saving.forEach(msgId => this._settled.delete(msgId));
      this._saving = [];
    }
  }

  /** Update a cell that was moved or restored, after JupyterLab's own changes to it. */
  private _onCells(): void {
    void Promise.resolve().then(() => {
      if (!this._isDisposed) {
        [...this._earlier, this._live].forEach(runs => runs?.enterCells());
        this._changed.emit();
      }
    });
  }

  private readonly _cells: NotebookCells;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _restored = new Set<string>();
  /** The shortened requests by cell id. */
  private readonly _shortened = new Map<string, IRecordedRequest>();
  private readonly _own = new Set<string>();
  /** Requests that were open when the kernel last ended. */
  private _ended: readonly string[] = [];
  /** Requests whose messages JupyterLab drops, though the kernel still runs them. */
  private readonly _lost = new Set<string>();
  /** Requests that are complete in the notebook, but not saved yet. */
  private readonly _settled = new Set<string>();
  private _saving: readonly string[] = [];
  private _kernel: Kernel.IKernelConnection | null = null;
  private _live: LiveRuns | null = null;
  /** The runs of earlier kernels, as long as their outputs have no cell. */
  private readonly _earlier: LiveRuns[] = [];
  private _pending: KernelMessage.IMessage[] = [];
  private _asking = 0;
  private _isWanted = false;
  private _isDisposed = false;
  private _problem: IProblem | null = null;
  private _wait = FIRST_WAIT_MS;
  private _timer = 0;
}

/** Requests that are complete in the saved notebook; null to restore them, too. */
type Seen = ReadonlySet<string> | null;

const NONE: Seen = new Set();

/** Error codes of kernels that do not belong to this project, or have no server extension. */
const NO_RECORD: readonly string[] = ['http_404', 'outputs_not_found'];
