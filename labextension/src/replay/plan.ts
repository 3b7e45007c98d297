/** Which lost cells can be run again, and which are preselected; pure. */

import { ILostRun } from '../api.generated';

/** One line of the dialog. */
export interface IChoice {
  readonly run: ILostRun;
  /** Position of the run, counted from 1. */
  readonly number: number;
  /** Whether the notebook no longer has the cell, or never had it. */
  readonly isMissing: boolean;
  /** Whether the cell was edited since; it is run in its present form. */
  readonly isEdited: boolean;
  /** Whether it can be run again: not if both the cell and its complete text are missing. */
  readonly canRun: boolean;
  readonly isProposed: boolean;
}

/**
 * @param sources the text of each code cell of the notebook, by id
 * @param done the runs that were rerun already
 */
export function choicesOf(
  runs: readonly ILostRun[],
  sources: ReadonlyMap<string, string>,
  done: ReadonlySet<string>
): IChoice[] {
  return runs.map((run, index) => {
    const source = run.cell_id === null ? undefined : sources.get(run.cell_id);
    const isMissing = source === undefined;
    return {
      run,
      number: index + 1,
      isMissing,
      isEdited: !isMissing && run.is_whole && source.trim() !== run.code.trim(),
      canRun: !isMissing || run.is_whole,
      isProposed: !isMissing && !done.has(run.msg_id)
    };
  });
}
