/** Changes to a code cell. The only module that depends on differences between JupyterLab's versions. */

import type { CodeCell } from '@jupyterlab/cells';
import { KernelMessage } from '@jupyterlab/services';
import { JSONExt } from '@lumino/coreutils';
import * as nbformat from '@jupyterlab/nbformat';
import { RecordFuture } from './future';
import { asSaved, IRecordedRequest } from './records';

/**
 * Change outputs without an undo step, because the user did not do it. A transaction of the cell alone would lose the
 * origin.
 */
function withoutUndo({ model: { sharedModel } }: CodeCell, change: () => void): void {
  (sharedModel.notebook ?? sharedModel).transact(change, false, 'silent-change');
}

/**
 * Put the outputs of a finished request into its cell; returns whether that changed anything.
 *
 *  The cell's trust never increases, as `clearExecution` would make it do.
 */
export function fillCell(cell: CodeCell, request: IRecordedRequest): boolean {
  const outputs = asSaved(request.outputs ?? []);
  const { model } = cell;
  const isNew = !JSONExt.deepEqual(normalised(model.outputs.toJSON()), normalised(outputs));
  const isChanged = isNew || model.executionCount !== request.execution_count;
  if (isNew) {
    withoutUndo(cell, () => model.outputs.fromJSON(outputs));
  }
  endCell(cell, request.execution_count);
  markIfEdited(cell, request.code);
  return isChanged;
}

/** Mark all outputs of a cell as untrusted, including future ones and those in the saved notebook. */
export function markUntrusted(cell: CodeCell): void {
  cell.model.trusted = false;
  withoutUndo(cell, () => cell.model.setMetadata('trusted', false));
}

/** Clear a cell and continue it with a future. */
export function joinCell(cell: CodeCell, future: RecordFuture): void {
  const { outputArea } = cell;
  withoutUndo(cell, () => cell.model.outputs.clear());
  const { reattachFuture } = outputArea as Partial<typeof outputArea>;
  if (reattachFuture) {
    reattachFuture.call(outputArea, future);
  } else {
    outputArea.future = future; // before JupyterLab 4.6
  }
}

/** Show `[*]` in a cell. */
export function startCell(cell: CodeCell, code: string): void {
  if (hasState(cell)) {
    cell.model.executionCount = null;
    cell.model.executionState = 'running';
  } else {
    cell.setPrompt('*');
  }
  markIfEdited(cell, code);
}

/** Show the prompt number. It must not be set silently, because the prompt would not be updated. */
export function endCell(cell: CodeCell, count: number | null): void {
  cell.model.executionCount = count;
  if (!hasState(cell)) {
    cell.setPrompt(`${count ?? ''}`);
  } else if (cell.model.executionState !== 'idle') {
    cell.model.executionState = 'idle';
  }
}

/** Update one output if it still is a display. */
export function updateDisplay(
  cell: CodeCell,
  index: number,
  { data, metadata }: KernelMessage.IUpdateDisplayDataMsg['content']
): void {
  const { outputs } = cell.model;
  if (index < outputs.length && outputs.get(index).type === 'display_data') {
    outputs.set(index, { output_type: 'display_data', data, metadata });
  }
}

/** Whether the cell was run in this page, which is newer than the record. */
export function hasOwnRun({ outputArea }: CodeCell): boolean {
  const { future } = outputArea;
  return Boolean(future) && !future.isDisposed && !(future instanceof RecordFuture);
}

/** Set JupyterLab's mark of a cell that was edited since it was run. */
function markIfEdited(cell: CodeCell, code: string): void {
  if (cell.model.sharedModel.getSource().trim() !== code.trim()) {
    Reflect.set(cell.model, 'isDirty', true);
  }
}

/** Whether the cell has an execution state, as from JupyterLab 4.4 on. */
function hasState({ model }: CodeCell): boolean {
  return 'executionState' in model;
}

/** Outputs in a form that compares equal, however a file or a kernel splits their text. */
function normalised(outputs: readonly nbformat.IOutput[]): nbformat.IOutput[] {
  return outputs.map(output => {
    const { metadata, text, ...rest } = output;
    const whole = Array.isArray(text) ? text.join('') : text;
    return JSON.parse(
      JSON.stringify({ ...rest, text: whole, metadata: metadata ?? {} })
    ) as nbformat.IOutput;
  });
}
