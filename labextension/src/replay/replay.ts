/** The cells that one notebook lost with its node, and running them again. */

import { ISignal, Signal } from '@lumino/signaling';
import { ILostRun, INodeEnd, IReplay } from '../api.generated';
import { choicesOf, IChoice } from './plan';

/** The REST routes needed here. */
export interface IReplaySource {
  /** What was lost with the node of a kernel. */
  replay(kernelId: string): Promise<IReplay>;
  /** Report that the user has run the cells again, or dismissed them. */
  settle(kernelId: string): Promise<void>;
}

/** The part of the notebook needed here. */
export interface IReplayTarget {
  readonly sources: ReadonlyMap<string, string>;
  /** Run one cell again; returns whether it succeeded. */
  run(lost: ILostRun): Promise<boolean>;
}

/** What a notebook lost when its node ended. */
export type EndedReplay = IReplay & { readonly end: INodeEnd };

export class NotebookReplay {
  /** @param _remember stores the end that is shown, for when the page is loaded again; null for none */
  constructor(
    private readonly _source: IReplaySource,
    private readonly _cells: IReplayTarget,
    private readonly _remember: (shown: EndedReplay | null) => void = () => undefined
  ) {}

  /** Emitted when any property has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The lost cells that the user has not decided about yet; null if there are none. */
  get lost(): IReplay | null {
    return this._lost;
  }

  /** When `lost` arrived, in milliseconds. */
  get received_ms(): number {
    return this._received_ms;
  }

  get isRunning(): boolean {
    return this._isRunning;
  }

  /** The runs that were rerun already. */
  get done(): ReadonlySet<string> {
    return this._done;
  }

  get choices(): IChoice[] {
    return choicesOf(this._lost?.cells ?? [], this._cells.sources, this._done);
  }

  /**
   * Request the lost cells of a kernel; null for a notebook without a kernel. Errors are ignored, because the kernel
   * may be unknown.
   */
  async refresh(kernelId: string | null): Promise<void> {
    const isGone = kernelId === null && this._hasEnded;
    if (isGone) {
      return; // the kernel is in no list any more, but its notebook still shows the end of the node
    }
    if (kernelId !== this._kernelId) {
      this._hasEnded = false;
    }
    this._kernelId = kernelId;
    const found = kernelId === null ? null : await this._source.replay(kernelId).catch(() => null);
    if (kernelId === this._kernelId && (found || !this._hasEnded)) {
      this._hasEnded = Boolean(found?.end);
      const isNews = found && lossOf(found) !== this._dismissed;
      this._set(isNews && (found.cells.length || found.end) ? found : null);
    }
  }

  /** Forget the lost cells when the notebook gets a kernel that runs on no node. */
  onOtherKernel(): void {
    this._kernelId = null;
    this._hasEnded = false;
    this._set(null);
  }

  /** Show again what the page showed before it was reloaded; a restarted server may no longer know it. */
  async restore(shown: EndedReplay): Promise<void> {
    this._set(shown);
    await this.onNodeEnded(shown.kernel_id);
  }

  /** Show the end of the kernel's node until the user dismisses it or the notebook gets another kernel. */
  async onNodeEnded(kernelId: string): Promise<void> {
    this._kernelId = kernelId;
    this._hasEnded = true;
    await this.refresh(kernelId);
  }

  /** Handle that the kernel of an ended node runs again, on another node. */
  async onKernelReady(kernelId: string): Promise<void> {
    this._hasEnded = false;
    await this.refresh(kernelId);
  }

  /** Handle a change of a node, which may be the one that is being recreated. */
  async onNodes(): Promise<void> {
    if (this._hasEnded && this._lost?.end && this._kernelId !== null) {
      await this.refresh(this._kernelId);
    }
  }

  /** Run the chosen cells in order, up to the first failure; if all succeed, no cells are offered any more. */
  async run(chosen: ReadonlySet<string>): Promise<void> {
    const lost = this._lost;
    if (!lost || this._isRunning) {
      return;
    }
    this._isRunning = true;
    this._changed.emit();
    try {
      if (await this._runAll(lost.cells.filter(({ msg_id }) => chosen.has(msg_id)))) {
        await this.dismiss();
      }
    } finally {
      this._isRunning = false;
      this._changed.emit();
    }
  }

  /**
   * Handle that the user has run a cell; once none of the lost cells in this notebook is left, no cells are offered any
   * more.
   */
  async onExecuted(cellId: string, isOk: boolean): Promise<void> {
    const lost = this._lost;
    if (!lost?.is_back || this._isRunning) {
      return;
    }
    const again = lost.cells.filter(
      ({ cell_id, state }) => cell_id === cellId && (isOk || state === 'error')
    );
    again.forEach(({ msg_id }) => this._done.add(msg_id));
    if (again.length > 0 && !this.choices.some(({ isProposed }) => isProposed)) {
      await this.dismiss();
    } else if (again.length > 0) {
      this._changed.emit();
    }
  }

  /** Stop offering the cells, on every page; the line about the node's end is removed only on this page. */
  async dismiss(): Promise<void> {
    const lost = this._lost;
    this._dismissed = lost && lossOf(lost);
    this._set(null);
    if (lost && !lost.end) {
      await this._source.settle(lost.kernel_id);
    }
  }

  private async _runAll(runs: readonly ILostRun[]): Promise<boolean> {
    for (const run of runs) {
      if (!(await this._cells.run(run))) {
        return false;
      }
      this._done.add(run.msg_id);
    }
    return true;
  }

  private _set(lost: IReplay | null): void {
    if (lost?.lost_at !== this._lost?.lost_at) {
      this._done.clear();
    }
    this._lost = lost;
    this._remember(hasEnded(lost) ? lost : null);
    this._received_ms = Date.now();
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _done = new Set<string>();
  private _lost: IReplay | null = null;
  /** The loss that was dismissed last: a response that was requested before may still report it. */
  private _dismissed: string | null = null;
  private _kernelId: string | null = null;
  private _isRunning = false;
  private _hasEnded = false;
  private _received_ms = 0;
}

/** Identifies what is shown about a loss: first the end of the node, later its lost cells. */
function lossOf({ kernel_id, lost_at, end }: IReplay): string {
  return end ? `${kernel_id} ended at ${end.at}` : `${kernel_id} lost at ${lost_at}`;
}

/** Whether the kernel's node has ended for good; a node that is being recreated will bring the kernel back. */
function hasEnded(lost: IReplay | null): lost is EndedReplay {
  return lost !== null && lost.end !== null && (lost.recovery?.has_given_up ?? true);
}
