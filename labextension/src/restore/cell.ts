/** Changes to a code cell; the only module that knows the differences between JupyterLab's versions. */

import type { CodeCell } from '@jupyterlab/cells';
import { KernelMessage } from '@jupyterlab/services';
import { JSONExt } from '@lumino/coreutils';
import * as nbformat from '@jupyterlab/nbformat';
import { RecordFuture } from './future';
import { asSaved, IRecordedRequest } from './records';

/** Change outputs without an undo step: the user did not do it. A cell alone would drop the origin. */
function withoutUndo({ model: { sharedModel } }: CodeCell, change: () => void): void {
  (sharedModel.notebook ?? sharedModel).transact(change, false, 'silent-change');
}

/**
 * Put the outputs of a finished request into its cell; returns whether that changed anything.
 *
 * A cell never becomes more trusted than it is: `clearExecution` would do that.
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

/** Empty a cell and continue it with a future. */
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

/** Show `[*]`. */
export function startCell(cell: CodeCell, code: string): void {
  if (hasState(cell)) {
    cell.model.executionCount = null;
    cell.model.executionState = 'running';
  } else {
    cell.setPrompt('*');
  }
  markIfEdited(cell, code);
}

/** Show the prompt number. It must not be set silently: the prompt would not follow. */
export function endCell(cell: CodeCell, count: number | null): void {
  cell.model.executionCount = count;
  if (!hasState(cell)) {
    cell.setPrompt(`${count ?? ''}`);
  } else if (cell.model.executionState !== 'idle') {
    cell.model.executionState = 'idle';
  }
}

/** Update one output if it is still a display. */
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

/** Whether the cell has a run of this page, which is newer. */
export function hasOwnRun({ outputArea }: CodeCell): boolean {
  const { future } = outputArea;
  return Boolean(future) && !future.isDisposed && !(future instanceof RecordFuture);
}

/** JupyterLab's own mark of a cell that was edited since it was run. */
function markIfEdited(cell: CodeCell, code: string): void {
  if (cell.model.sharedModel.getSource().trim() !== code.trim()) {
    Reflect.set(cell.model, 'isDirty', true);
  }
}

/** Cells know whether they run since JupyterLab 4.4. */
function hasState({ model }: CodeCell): boolean {
  return 'executionState' in model;
}

/** Outputs in a form that compares equal, however a file or a kernel splits them. */
function normalised(outputs: readonly nbformat.IOutput[]): nbformat.IOutput[] {
  return outputs.map(output => {
    const { metadata, text, ...rest } = output;
    const whole = Array.isArray(text) ? text.join('') : text;
    return JSON.parse(
      JSON.stringify({ ...rest, text: whole, metadata: metadata ?? {} })
    ) as nbformat.IOutput;
  });
}
