/** Cells that were lost with a node, and running them again. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ILostRun, IReplay } from '../api.generated';
import { formatMoment } from '../money/moments';
import { endText } from './nodeend';

export function dialogTitle(trans: TranslationBundle): string {
  return trans.__('Rerun lost cells');
}

export function explanation(trans: TranslationBundle): string {
  return trans.__(
    'Variables were lost with the node. The selected cells run again in this order, up to the first failure.'
  );
}

export function selectAll(trans: TranslationBundle): string {
  return trans.__('Select all');
}

export function selectNone(trans: TranslationBundle): string {
  return trans.__('Select none');
}

export function run(trans: TranslationBundle): string {
  return trans.__('Run');
}

export function editedSince(trans: TranslationBundle): string {
  return trans.__('code was edited; the current version will run');
}

export function cellAdded(trans: TranslationBundle): string {
  return trans.__('no longer in this notebook; a new cell will be added');
}

export function cannotRun(trans: TranslationBundle): string {
  return trans.__('no longer in this notebook, and too long to restore');
}

/** The kernel is not connected; its node may be READY even so. */
export function notConnected(trans: TranslationBundle): string {
  return trans.__('The kernel is not connected yet.');
}

export function running(trans: TranslationBundle): string {
  return trans.__('Running…');
}

export function rerunEllipsis(trans: TranslationBundle): string {
  return trans.__('Rerun lost cells…');
}

/**
 * `my-node was stopped at 16:15: idle for 1 h. 7 cells had run; cell 8 was interrupted after 40 outputs.`
 *
 *  @param done the runs that were rerun already, which are left out
 */
export function noticeText(
  replay: IReplay,
  done: ReadonlySet<string>,
  now: Date,
  trans: TranslationBundle
): string {
  const { cells, lost_at, lost_end, earlier_at } = replay;
  const left = cells.filter(({ msg_id }) => !done.has(msg_id));
  const ended = left.filter(({ state }) => state === 'ok' || state === 'error').length;
  const waiting = left.filter(({ state }) => state === 'queued').length;
  const parts = [
    ...(ended ? [trans._n('%1 cell had run', '%1 cells had run', ended)] : []),
    ...left.flatMap(run =>
      run.state === 'cut' ? [interruptedText(run, cells.indexOf(run) + 1, trans)] : []
    ),
    ...(waiting ? [trans._n('%1 had not started', '%1 had not started', waiting)] : [])
  ];
  const head = lost_end
    ? endText(lost_end, now, trans)
    : trans.__(
        'The kernel was lost with its node at %1.',
        formatMoment(lost_at ?? 0, now.getTime() / 1000)
      );
  const text = `${parts.join('; ')}.`;
  if (!earlier_at) {
    return `${head} ${text}`;
  }
  const at = formatMoment(earlier_at, now.getTime() / 1000);
  const earlier = trans.__('Cells lost earlier (%1): %2', at, text);
  return `${head} ${earlier}`;
}

export function interruptedText(
  { outputs }: ILostRun,
  number: number,
  trans: TranslationBundle
): string {
  return outputs
    ? trans._n(
        'cell %2 was interrupted after %1 output',
        'cell %2 was interrupted after %1 outputs',
        outputs,
        number
      )
    : trans.__('cell %1 was interrupted before its first output', number);
}

/** The line under an interrupted cell. */
export function markText(
  { outputs }: ILostRun,
  lost_at: number,
  now: Date,
  trans: TranslationBundle
): string {
  const at = formatMoment(lost_at, now.getTime() / 1000);
  return outputs
    ? trans.__('Lost with the node at %1, after output %2', at, outputs)
    : trans.__('Lost with the node at %1, before its first output', at);
}

/** The state of a lost run. */
export function stateText({ state, outputs }: ILostRun, trans: TranslationBundle): string {
  switch (state) {
    case 'ok':
      return trans.__('completed');
    case 'error':
      return trans.__('failed');
    case 'queued':
      return trans.__('not started');
    case 'cut':
      return trans._n('interrupted after %1 output', 'interrupted after %1 outputs', outputs);
  }
}
