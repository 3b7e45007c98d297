/** Which of the lost runs can be run again, and which are proposed; pure. */

import { ILostRun } from '../api.generated';

/** One line of the dialog. */
export interface IChoice {
  readonly run: ILostRun;
  /** Which run it was, counted from 1. */
  readonly number: number;
  /** Whether the cell is not in the notebook any more, or never was a cell of it. */
  readonly isMissing: boolean;
  /** Whether the cell's text is another now; that is what runs. */
  readonly isEdited: boolean;
  /** False where there is neither a cell nor its whole text. */
  readonly canRun: boolean;
  readonly isProposed: boolean;
}

/**
 * @param sources the text of each code cell of the notebook, by id
 * @param done the runs that were run again already
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
