/** Which open notebooks belong to which node. */

import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { KernelSpec } from '@jupyterlab/services';
import { nodeNameOf } from '../nodekernel';

/** Remembers the node of a notebook whose kernel ended with it: the kernelspec disappears, but the notebook stays. */
export class NotebookNodes {
  /** @param _specs returns the kernelspecs that exist now */
  constructor(
    private readonly _tracker: Pick<INotebookTracker, 'forEach'>,
    private readonly _specs: () => KernelSpec.ISpecModels | null
  ) {}

  /** Whether an open notebook runs on the node with that full name, or ran there last. */
  has(nodeName: string): boolean {
    let isFound = false;
    this._tracker.forEach(panel => {
      isFound = this._nodeOf(panel) === nodeName || isFound;
    });
    return isFound;
  }

  private _nodeOf(panel: NotebookPanel): string | undefined {
    const kernel = panel.sessionContext.session?.kernel?.name;
    const specs = this._specs();
    if (kernel !== undefined && specs?.kernelspecs[kernel]) {
      this._last.set(panel, nodeNameOf(kernel, specs) ?? '');
    }
    return this._last.get(panel);
  }

  private readonly _last = new WeakMap<NotebookPanel, string>();
}
