/** The restorers of all open notebooks. */

import { NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';
import { NotebookContext } from './notebook';
import { IRecordSource, NotebookRestorer } from './restorer';
import { SeenRequests } from './seen';

export class Restorers {
  constructor(
    private readonly _source: IRecordSource,
    private readonly _seen: SeenRequests
  ) {}

  /** Emitted when an open notebook turns out to be edited by several people at once; it is not restored. */
  get collaborationFound(): ISignal<this, void> {
    return this._collaborationFound;
  }

  /** Whether outputs are restored automatically. */
  get isOn(): boolean {
    return this._isOn;
  }

  set isOn(value: boolean) {
    const isNews = value && !this._isOn;
    this._isOn = value;
    if (isNews) {
      this._restorers.forEach(restorer => this._begin(restorer));
    }
  }

  /** The restorer of a view's document; null if several people share it, because each page would restore it. */
  of(panel: NotebookPanel): NotebookRestorer | null {
    if (panel.context.model.collaborative) {
      this._collaborationFound.emit();
      return null;
    }
    const restorer = this._restorers.get(panel.context) ?? this._add(panel.context);
    if (!this._panels.has(panel)) {
      this._panels.add(panel);
      restorer.addPanel(panel);
    }
    return restorer;
  }

  /** Send another request for a kernel that was unreachable. */
  retry(kernelId: string): void {
    this._restorers.forEach(restorer => {
      if (restorer.kernelId === kernelId && restorer.problem) {
        this._begin(restorer);
      }
    });
  }

  /** Restore the running cells after a refused restart, because JupyterLab has discarded them. */
  resume(kernelId: string): void {
    this._restorers.forEach(restorer => {
      if (restorer.kernelId === kernelId) {
        restorer.forgetEnded();
        this._begin(restorer);
      }
    });
  }

  private _add(context: NotebookContext): NotebookRestorer {
    const restorer = new NotebookRestorer(context, this._source, this._seen);
    this._restorers.set(context, restorer);
    context.disposed.connect(() => this._restorers.delete(context));
    this._begin(restorer);
    return restorer;
  }

  private _begin(restorer: NotebookRestorer): void {
    void (this._isOn && restorer.restore());
  }

  private readonly _collaborationFound = new Signal<this, void>(this);
  private readonly _restorers = new Map<NotebookContext, NotebookRestorer>();
  private readonly _panels = new WeakSet<NotebookPanel>();
  private _isOn = false;
}
