/** The cells of one view of a notebook, for rerunning them. */

import type { Cell, CodeCell } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ILostRun } from '../api.generated';

export class ReplayCells {
  constructor(private readonly _panel: NotebookPanel) {}

  /** The text of each code cell, by id. */
  get sources(): Map<string, string> {
    const { widgets } = this._panel.content;
    return new Map(
      widgets.filter(isCode).map(({ model }) => [model.id, model.sharedModel.getSource()])
    );
  }

  find(cellId: string | null): CodeCell | undefined {
    return this._panel.content.widgets.filter(isCode).find(({ model }) => model.id === cellId);
  }

  /** Run a lost cell again as the user would; returns whether it succeeded. A missing cell is added. */
  async run(lost: ILostRun): Promise<boolean> {
    const cell = this.find(lost.cell_id) ?? this._add(lost);
    const { content, sessionContext } = this._panel;
    return NotebookActions.runCells(content, [cell], sessionContext);
  }

  private _add({ cell_id, code }: ILostRun): Cell {
    const { content } = this._panel;
    const notebook = this._panel.context.model.sharedModel;
    const id = cell_id === null ? {} : { id: cell_id };
    notebook.insertCell(notebook.cells.length, {
      ...{ cell_type: 'code' as const, source: code, metadata: {}, outputs: [] },
      ...id
    });
    return content.widgets[content.widgets.length - 1];
  }
}

function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === 'code';
}
