/** The commands on restored outputs. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Dialog, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import { listIcon, undoIcon } from '@jupyterlab/ui-components';
import { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as notebookMessages from '../messages/notebook';
import { TpuClient } from '../request';
import { RestoreCommandIDs } from '../tokens';
import { NotebookRestorer } from './restorer';
import { Restorers } from './restorers';
import { UnplacedOutputs } from './unplaced';

type Args = ReadonlyPartialJSONObject;

export interface IRestoreContext {
  readonly app: JupyterFrontEnd;
  readonly tracker: INotebookTracker;
  readonly restorers: Restorers;
  readonly client: TpuClient;
  readonly trans: TranslationBundle;
}

interface IOpen {
  readonly panel: NotebookPanel;
  readonly restorer: NotebookRestorer;
}

/** Add the commands, which act on the notebook with a given path, or else on the current one. */
export function addRestoreCommands(context: IRestoreContext): void {
  const { app, tracker, trans } = context;
  const isEnabled = (): boolean => tracker.currentWidget !== null;
  app.commands.addCommand(RestoreCommandIDs.restoreOutputs, {
    label: commandLabel(messages.restoreOutputs(trans), trans),
    icon: undoIcon,
    isEnabled,
    describedBy: { args: argsOf({}) },
    execute: async args => open(context, args)?.restorer.restore(true)
  });
  app.commands.addCommand(RestoreCommandIDs.showOutputs, {
    label: commandLabel(messages.showOutputs(trans), trans),
    icon: listIcon,
    isEnabled,
    describedBy: { args: argsOf({}) },
    execute: async args => showUnplaced(context, open(context, args))
  });
  app.commands.addCommand(RestoreCommandIDs.addCell, {
    label: commandLabel(messages.addCell(trans), trans),
    isEnabled,
    describedBy: { args: argsOf({ msg_id: { type: 'string' } }) },
    execute: args => addCell(open(context, args), args.msg_id)
  });
  tracker.currentChanged.connect(() => {
    RESTORE_PALETTE.forEach(id => app.commands.notifyCommandChanged(id));
  });
}

export const RESTORE_PALETTE = [RestoreCommandIDs.restoreOutputs, RestoreCommandIDs.showOutputs];

function open({ tracker, restorers }: IRestoreContext, { path }: Args): IOpen | null {
  const named = tracker.find(({ context }) => context.path === path);
  const panel = named ?? tracker.currentWidget;
  const restorer = panel && restorers.of(panel);
  return panel && restorer && { panel, restorer };
}

async function showUnplaced(context: IRestoreContext, which: IOpen | null): Promise<void> {
  const { app, client, trans } = context;
  const title = notebookMessages.elsewhereTitle(trans);
  if (!which || which.restorer.unplaced.length + which.restorer.shortened.length === 0) {
    const body = notebookMessages.allInCells(trans);
    await showDialog({ title, body, buttons: [Dialog.okButton()] });
    return;
  }
  const { panel, restorer } = which;
  const { path } = panel.context;
  const actions = {
    onCopy: (code: string) => Clipboard.copyToSystem(code),
    onAdd: (msg_id: string) =>
      void app.commands.execute(RestoreCommandIDs.addCell, { path, msg_id }),
    textUrl: (msgId: string, query?: string) => client.textUrl(restorer.kernelId, msgId, query)
  };
  const body = new UnplacedOutputs(restorer, actions, panel.content.rendermime, trans);
  await showDialog({
    title,
    body,
    buttons: [Dialog.okButton({ label: notebookMessages.close(trans) })]
  });
}

/** Add a cell under its old id, so that its recorded run continues in it. */
function addCell(which: IOpen | null, msgId: unknown): void {
  const run = which?.restorer.unplaced.find(one => one.msgId === msgId);
  const notebook = which?.panel.context.model.sharedModel;
  if (run && notebook) {
    const cell = { cell_type: 'code' as const, id: run.cellId, source: run.request.code };
    notebook.insertCell(notebook.cells.length, { ...cell, metadata: {}, outputs: [] });
  }
}

function argsOf(properties: ReadonlyJSONObject): ReadonlyJSONObject {
  const path = { type: 'string', description: 'Path of the notebook; the current one if absent' };
  return { type: 'object', properties: { path, ...properties } };
}
