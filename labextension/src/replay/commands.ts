/** The commands on cells that were lost with a node. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as replayMessages from '../messages/replay';
import { ReplayChoice } from './dialog';
import { NotebookReplay } from './replay';

export const ReplayCommandIDs = {
  run: 'tpu:run-lost-cells',
  dismiss: 'tpu:dismiss-lost-cells'
} as const;

export interface IReplayContext {
  readonly commands: CommandRegistry;
  readonly tracker: INotebookTracker;
  readonly trans: TranslationBundle;
  /** The lost cells of a notebook. */
  readonly of: (panel: NotebookPanel) => NotebookReplay | undefined;
}

type Args = ReadonlyPartialJSONObject;

/** Add the commands, which act on the notebook with a given path, or else on the current one. */
export function addReplayCommands(context: IReplayContext): void {
  const { commands, trans } = context;
  commands.addCommand(ReplayCommandIDs.run, {
    label: commandLabel(messages.rerunLostCells(trans), trans),
    describedBy: { args: ARGS },
    execute: async args => chooseCells(find(context, args), trans)
  });
  commands.addCommand(ReplayCommandIDs.dismiss, {
    label: commandLabel(messages.dismissLostCells(trans), trans),
    describedBy: { args: ARGS },
    execute: async args => find(context, args)?.dismiss()
  });
}

const ARGS = {
  type: 'object',
  properties: {
    path: { type: 'string', description: 'Path of the notebook; the current one if absent' }
  }
};

function find({ tracker, of }: IReplayContext, { path }: Args): NotebookReplay | undefined {
  const panel = tracker.find(({ context }) => context.path === path) ?? tracker.currentWidget;
  return panel ? of(panel) : undefined;
}

async function chooseCells(
  own: NotebookReplay | undefined,
  trans: TranslationBundle
): Promise<void> {
  if (!own?.lost) {
    return;
  }
  const answer = await showDialog({
    title: replayMessages.dialogTitle(trans),
    body: new ReplayChoice(own.choices, trans),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: replayMessages.run(trans) })]
  });
  if (answer.button.accept && answer.value) {
    await own.run(answer.value);
  }
}
