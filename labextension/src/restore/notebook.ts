/** The cells of one open notebook, in all its views. */

import type { CodeCell } from '@jupyterlab/cells';
import { DocumentRegistry } from '@jupyterlab/docregistry';
import { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { ICellNow } from './plan';

export type NotebookContext = DocumentRegistry.IContext<INotebookModel>;

export class NotebookCells {
  constructor(private readonly _context: NotebookContext) {}

  /** Whether another page has the kernel, and so perhaps the notebook, open. */
  isShared = false;

  /** Add a view. Cells are changed through the first open view; the others share its model. */
  addPanel(panel: NotebookPanel): void {
    this._panels.push(panel);
  }

  removePanel(panel: NotebookPanel): void {
    this._panels = this._panels.filter(other => other !== panel);
  }

  find(cellId: string): CodeCell | undefined {
    const [panel] = this._panels;
    const cell = panel?.content.widgets.find(({ model }) => model.id === cellId);
    return cell?.model.type === 'code' ? (cell as CodeCell) : undefined;
  }

  get now(): ICellNow[] {
    return [...this._context.model.cells]
      .filter(({ type }) => type === 'code')
      .map(({ id, sharedModel }) => ({ cellId: id, source: sharedModel.getSource() }));
  }

  /** Whether the file keeps the ids of its cells. */
  get keepsIds(): boolean {
    const { nbformat, nbformat_minor } = this._context.model.sharedModel;
    return nbformat > 4 || nbformat_minor >= 5;
  }

  /** Change outputs. If another page has the notebook open, the change must not mark it as unsaved here. */
  touch(change: () => void): void {
    const { model } = this._context;
    const wasDirty = model.dirty;
    change();
    if (this.isShared && !wasDirty) {
      model.dirty = false;
    }
  }

  private _panels: NotebookPanel[] = [];
}
