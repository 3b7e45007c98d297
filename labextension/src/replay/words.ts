/** What is said of runs that were lost with their node; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ILostRun, IReplay } from './records';

/** `14:02`, and the day where it is not today. */
export function clockOf(at_s: number, now: Date): string {
  const at = new Date(at_s * 1000);
  const time = at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return at.toDateString() === now.toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/** `Node pre-empted at 14:02. 7 cells had run; cell 8 was cut after 40 outputs.` */
export function noticeText(replay: IReplay, now: Date, trans: TranslationBundle): string {
  const { cells, lost_at } = replay;
  const ended = cells.filter(({ state }) => state === 'ok' || state === 'error').length;
  const waiting = cells.filter(({ state }) => state === 'queued').length;
  const parts = [
    trans._n('%1 cell had run', '%1 cells had run', ended),
    ...cells.flatMap((run, index) => (run.state === 'cut' ? [cutText(run, index + 1, trans)] : [])),
    ...(waiting ? [trans._n('%1 had not begun', '%1 had not begun', waiting)] : [])
  ];
  const head = trans.__('Node pre-empted at %1.', clockOf(lost_at ?? 0, now));
  return `${head} ${parts.join('; ')}.`;
}

function cutText({ outputs }: ILostRun, number: number, trans: TranslationBundle): string {
  return outputs
    ? trans._n(
        'cell %2 was cut after %1 output',
        'cell %2 was cut after %1 outputs',
        outputs,
        number
      )
    : trans.__('cell %1 was cut before its first output', number);
}

/** The line under a cell that was cut. */
export function markText(
  { outputs }: ILostRun,
  lost_at: number,
  now: Date,
  trans: TranslationBundle
): string {
  const at = clockOf(lost_at, now);
  return outputs
    ? trans.__('Lost with the node at %1, last output %2', at, outputs)
    : trans.__('Lost with the node at %1, before its first output', at);
}

/** What had become of a run. */
export function stateText({ state, outputs }: ILostRun, trans: TranslationBundle): string {
  switch (state) {
    case 'ok':
      return trans.__('had run');
    case 'error':
      return trans.__('had failed');
    case 'queued':
      return trans.__('had not begun');
    case 'cut':
      return trans._n('cut after %1 output', 'cut after %1 outputs', outputs);
  }
}
