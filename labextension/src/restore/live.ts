/** The runs of one kernel for the cells of one notebook. */

import type { CodeCell } from '@jupyterlab/cells';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { fillCell, hasOwnRun, updateDisplay } from './cell';
import { Displays } from './displays';
import { NotebookCells } from './notebook';
import { IPlacement, IPlan } from './plan';
import { displayIdOf, IRecordedRequest, ISpan, parentOf, spanOf } from './records';
import { Run } from './run';

/** Callbacks of the runs. */
export interface ILiveCallbacks {
  /** Called before a cell shows outputs of its kernel. */
  beforeOutputs: (cell: CodeCell) => void;
  /** Called when the notebook has all outputs of a request. */
  onWhole: (msgId: string) => void;
  /** Called when part of a merged message is already known: request the record, which has the message in one piece. */
  onTorn: (msgId: string) => void;
}

/** The length of a cell's output from which the page may handle other events before the next cell. */
const BIG_CHARACTERS = 200_000;

export class LiveRuns {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _cells: NotebookCells,
    private readonly _actions: ILiveCallbacks
  ) {}

  /** Cells that were run in this page; these newer runs win. */
  get taken(): ReadonlySet<string> {
    return this._ownCells;
  }

  /** Runs with outputs for a cell that does not exist. */
  get unplaced(): readonly Run[] {
    const behind = [...this._runs.values()].filter(({ isBehind }) => isBehind);
    return behind.filter(({ cellId }) => !this._cells.find(cellId));
  }

  has(msgId: string): boolean {
    return this._runs.has(msgId);
  }

  /** Apply a plan that covers all positions up to `seq`; returns the cells that changed. */
  async apply(plan: IPlan, seq: number): Promise<readonly string[]> {
    plan.follow.forEach(({ cellId, request }) => this._follow(request, cellId, seq));
    plan.unplaced.forEach(request => this._follow(request, request.cell_id ?? '', seq));
    const changed = plan.follow.map(({ cellId }) => cellId);
    for (const placement of plan.fill) {
      if (this._fill(placement, seq)) {
        changed.push(placement.cellId);
        await (isBig(placement.request) ? pause() : undefined);
      }
    }
    return changed;
  }

  onMessage(message: KernelMessage.IMessage): void {
    const span = spanOf(message);
    const run = this._runOf(message, span);
    if (run && span && span.last <= run.seq) {
      return;
    }
    if (run && span && span.first <= run.seq) {
      this._runs.delete(run.msgId);
      this._actions.onTorn(run.msgId);
      return;
    }
    this._cells.touch(() => this._onNew(message, run));
    if (run && span) {
      run.seq = span.last;
    }
  }

  /** Give up a cell that the user runs: it belongs to the new run from now on. */
  leave(cellId: string): void {
    this._ownCells.add(cellId);
    this._displays.forget(cellId);
    for (const [msgId, run] of this._runs) {
      if (run.cellId === cellId) {
        this._runs.delete(msgId);
      }
    }
  }

  /** Continue the runs in cells that were moved or restored. */
  enterCells(): void {
    for (const run of this._runs.values()) {
      if (!run.isOver || run.isBehind) {
        this._enter(run);
      }
    }
  }

  /** End the requests whose kernel process has ended; returns those that end now. */
  end(): readonly string[] {
    const open = [...this._runs.values()].filter(({ isOver }) => !isOver);
    this._cells.touch(() => open.forEach(run => run.end()));
    return open.map(({ msgId }) => msgId);
  }

  /** Forget requests that will be requested again. */
  forget(msgIds: readonly string[]): void {
    msgIds.forEach(msgId => this._runs.delete(msgId));
  }

  private _follow(request: IRecordedRequest, cellId: string, seq: number): void {
    const run = new Run(request, cellId, seq, this._kernel, this._displays);
    this._runs.set(run.msgId, run);
    this._enter(run);
  }

  /** Show a run in its cell, unless the user has run the cell since. */
  private _enter(run: Run): void {
    const cell = this._cells.find(run.cellId);
    if (cell && hasOwnRun(cell)) {
      this._runs.delete(run.msgId);
    } else if (cell && !run.isIn(cell)) {
      this._cells.touch(() => {
        this._actions.beforeOutputs(cell);
        run.enter(cell);
      });
    }
  }

  private _fill({ cellId, request }: IPlacement, seq: number): boolean {
    const cell = this._cells.find(cellId);
    const isOwn = request.session === this._kernel.clientId;
    if (!cell || (!isOwn && (this._ownCells.has(cellId) || hasOwnRun(cell)))) {
      return false;
    }
    let isChanged = false;
    this._cells.touch(() => {
      this._actions.beforeOutputs(cell);
      isChanged = fillCell(cell, request);
    });
    this._rememberDisplays(cellId, request);
    this._filled.set(request.msg_id, { cellId, request, seq });
    this._actions.onWhole(request.msg_id);
    return isChanged;
  }

  private _rememberDisplays(cellId: string, { outputs }: IRecordedRequest): void {
    this._displays.forget(cellId);
    outputs?.forEach(({ transient }, index) => {
      const { display_id } = (transient ?? {}) as { display_id?: string };
      if (display_id) {
        this._displays.add(display_id, cellId, index);
      }
    });
  }

  private _onNew(message: KernelMessage.IMessage, run: Run | undefined): void {
    if (KernelMessage.isInputRequestMsg(message)) {
      run?.onInputRequest(message);
    } else if (message.channel === 'iopub') {
      this._onPublished(message as KernelMessage.IIOPubMessage, run);
    }
  }

  private _onPublished(message: KernelMessage.IIOPubMessage, run: Run | undefined): void {
    if (displayIdOf(message)) {
      this._updateDisplays(message);
    }
    if (!run) {
      return;
    }
    this._enter(run);
    run.onMessage(message);
    if (run.isOver && this._cells.find(run.cellId)) {
      this._actions.onWhole(run.msgId);
    }
  }

  private _updateDisplays(message: KernelMessage.IIOPubMessage): void {
    const content = message.content as KernelMessage.IUpdateDisplayDataMsg['content'];
    for (const { cellId, index } of this._displays.of(displayIdOf(message))) {
      const cell: CodeCell | undefined = this._cells.find(cellId);
      if (cell) {
        updateDisplay(cell, index, content);
      }
    }
    this._runs.forEach(run => run.update(message));
  }

  /** The run of a message. If a thread prints after its cell has ended, the cell continues. */
  private _runOf(message: KernelMessage.IMessage, span: ISpan | null): Run | undefined {
    const msgId = parentOf(message);
    const filled = this._filled.get(msgId);
    if (filled && message.channel === 'iopub' && span && span.last > filled.seq) {
      this._filled.delete(msgId);
      this._follow(filled.request, filled.cellId, filled.seq);
    }
    return this._runs.get(msgId);
  }

  private readonly _displays = new Displays();
  private readonly _runs = new Map<string, Run>();
  private readonly _filled = new Map<string, IPlacement & { readonly seq: number }>();
  private readonly _ownCells = new Set<string>();
}

function isBig({ outputs }: IRecordedRequest): boolean {
  return JSON.stringify(outputs).length > BIG_CHARACTERS;
}

/** Let the page handle other events. */
function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 0));
}
