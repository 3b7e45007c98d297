/** A line below each cell that was interrupted. The notebook itself is not changed. */

import type { CodeCell } from '@jupyterlab/cells';
import { PanelLayout, Widget } from '@lumino/widgets';
import { ILostRun } from '../api.generated';

export class CutMarks {
  constructor(
    private readonly _find: (cellId: string | null) => CodeCell | undefined,
    private readonly _text: (run: ILostRun) => string
  ) {}

  /** Mark the cells of these runs, and no others. */
  show(runs: readonly ILostRun[]): void {
    this._marks.forEach(mark => mark.dispose());
    this._marks.clear();
    runs.filter(({ state }) => state === 'cut').forEach(run => this._mark(run));
  }

  /** Remove the mark of a cell that is run again. */
  remove(cellId: string): void {
    this._marks.get(cellId)?.dispose();
    this._marks.delete(cellId);
  }

  private _mark(run: ILostRun): void {
    const cell = this._find(run.cell_id);
    const layout = cell?.layout;
    if (cell && layout instanceof PanelLayout) {
      const mark = new Widget();
      mark.addClass('jp-tpu-Replay-mark');
      mark.node.textContent = this._text(run);
      this._marks.set(cell.model.id, mark);
      // a cell that is not drawn yet would put its input below the mark
      void cell.ready.then(() => mark.isDisposed || layout.addWidget(mark));
    }
  }

  private readonly _marks = new Map<string, Widget>();
}
