/** The commands on the current notebook and its node. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import { historyIcon, kernelIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { INode, INodeAutostop } from '../api.generated';
import { ensureKernelspec } from '../create/notebookopener';
import { hasKernel } from '../fleet';
import { commandLabel, isInMenu } from '../labels';
import * as commandMessages from '../messages/commands';
import * as messages from '../messages/surfaces';
import { formatMoment } from '../money/moments';
import { MoneyCommandIDs } from '../money/tokens';
import { nodeNameOf } from '../nodekernel';
import { CommandIDs, ITpuModel, NotebookCommandIDs } from '../tokens';
import { askForNode } from './nodechoice';

const HOUR_S = 3600;
const DONE_MS = 5_000;

export interface INotebookContext {
  readonly app: JupyterFrontEnd;
  readonly model: ITpuModel;
  readonly tracker: INotebookTracker;
  readonly trans: TranslationBundle;
}

/** Add the commands, which do nothing without a notebook. */
export function addNotebookCommands(context: INotebookContext): void {
  const { app, tracker, trans } = context;
  const { commands } = app;
  commands.addCommand(NotebookCommandIDs.runOnTpu, {
    label: args =>
      isInMenu(args)
        ? commandMessages.runOnTpu(trans)
        : commandMessages.inPalette(commandMessages.runNotebookOnTpu(trans), trans),
    icon: kernelIcon,
    isEnabled: args => notebookOf(context, args) !== null,
    isVisible: args => args.isTab !== true || notebookOf(context, args) !== null,
    describedBy: { args: { type: 'object', properties: flags } },
    execute: args => {
      const panel = notebookOf(context, args);
      return panel && runOnTpu(context, panel);
    }
  });
  commands.addCommand(NotebookCommandIDs.keepCurrentNode, {
    label: commandLabel(commandMessages.keepCurrentNode(trans), trans),
    icon: historyIcon,
    isEnabled: () => nodeOfCurrent(context) !== undefined,
    describedBy: { args: { type: 'object', properties: flags } },
    execute: () => keepRunning(context)
  });
  const update = (): void => {
    commands.notifyCommandChanged(NotebookCommandIDs.runOnTpu);
    commands.notifyCommandChanged(NotebookCommandIDs.keepCurrentNode);
  };
  tracker.currentChanged.connect(update);
  context.model.stateChanged.connect(update);
}

/** The notebook of the tab under the pointer, or the current one. */
function notebookOf(
  { app, tracker }: INotebookContext,
  { isTab }: ReadonlyPartialJSONObject
): NotebookPanel | null {
  if (isTab !== true) {
    return tracker.currentWidget;
  }
  const tab = app.contextMenuHitTest(({ dataset }) => Boolean(dataset?.id));
  return tracker.find(({ id }) => id === tab?.dataset.id) ?? null;
}

/** Let the user choose a READY node or a new one, and run the notebook there. */
async function runOnTpu(
  { app, model, trans }: INotebookContext,
  panel: NotebookPanel
): Promise<void> {
  const { sessionContext, context } = panel;
  const choice = await askForNode(
    {
      title: PathExt.basename(context.path),
      nodes: (model.list?.nodes ?? []).filter(hasKernel),
      current: sessionContext.session?.kernel?.name
    },
    trans
  );
  if (choice === 'new') {
    await app.commands.execute(CommandIDs.createNode);
  } else if (choice) {
    await ensureKernelspec(app, choice);
    app.shell.activateById(panel.id);
    await sessionContext.changeKernel({ name: choice.kernelspec ?? undefined });
  }
}

async function keepRunning(context: INotebookContext): Promise<void> {
  const node = nodeOfCurrent(context);
  if (node) {
    const { zone, node_id } = node;
    const args = { zone, node_id, for_s: HOUR_S };
    const { commands } = context.app;
    const answer: unknown = await commands.execute(MoneyCommandIDs.keepRunning, args);
    const { kept_until } = answer as INodeAutostop;
    if (kept_until !== null) {
      const text = messages.keptUntil(
        node_id,
        formatMoment(kept_until, Date.now() / 1000),
        context.trans
      );
      Notification.success(text, { autoClose: DONE_MS });
    }
  }
}

/** The node on which the current notebook runs. */
function nodeOfCurrent({ app, model, tracker }: INotebookContext): INode | undefined {
  const kernel = tracker.currentWidget?.sessionContext.session?.kernel;
  const name = kernel && nodeNameOf(kernel.name, app.serviceManager.kernelspecs.specs);
  return name ? model.list?.nodes.find(node => node.name === name) : undefined;
}

const flags = {
  isMenu: { type: 'boolean', description: 'Whether the label is shown in a menu' },
  isTab: {
    type: 'boolean',
    description: 'Whether to run the notebook of the tab under the pointer'
  }
};
