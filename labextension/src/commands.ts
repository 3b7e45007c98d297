/** The commands of the extension; errors are shown where the action was started. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';
import {
  addIcon,
  deleteIcon,
  kernelIcon,
  LabIcon,
  notebookIcon,
  refreshIcon,
  runIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { INode, Provisioning } from './api.generated';
import { consoleUrl } from './console';
import { hasKernel, keyOf } from './fleet';
import { tpuIcon } from './icons';
import { commandLabel } from './labels';
import * as messages from './messages/commands';
import { kernelNotReady } from './messages/panel';
import { copied } from './messages/problems';
import * as terminals from './messages/terminals';
import { isOpen } from './create/memory';
import { ensureKernelspec } from './create/notebookopener';
import { chooseNode, confirmDelete, confirmStop, confirmStopMany } from './nodedialogs';
import { addKernelCommands } from './nodes/kernelcommands';
import { locatorIn, reportOnCard } from './nodes/target';
import { asProblem, TpuRequestError } from './request';
import { showPanel } from './surfaces/notebooktree';
import { TerminalCommandIDs } from './terminals/tokens';
import { CommandIDs, IFormRequest, INodeKey, INodeSpec, ITpuModel } from './tokens';

const NEW_NOTEBOOK = 'notebook:create-new';
const COPIED_MS = 2_000;

type Args = ReadonlyPartialJSONObject;

export interface ICommandContext {
  readonly app: JupyterFrontEnd;
  readonly model: ITpuModel;
  readonly trans: TranslationBundle;
  /** Null if there are no notebooks, as on some pages of Notebook 7. */
  readonly tracker: INotebookTracker | null;
}

/** Add all commands of the extension. */
export function addCommands(context: ICommandContext): void {
  addPanelCommands(context);
  addNotebookCommands(context);
  addNodeCommands(context);
  addKernelCommands(context);
}

function addPanelCommands({ app, model, trans }: ICommandContext): void {
  const { commands } = app;
  commands.addCommand(CommandIDs.openPanel, {
    label: commandLabel(messages.showPanel(trans), trans, messages.tpuPanel(trans)),
    icon: tpuIcon,
    describedBy: keyArgs,
    execute: args => {
      showPanel(app.shell);
      if (isKey(args) && !model.openCards.has(keyOf(args))) {
        model.toggleCard(args);
      }
    }
  });
  commands.addCommand(CommandIDs.refresh, {
    label: commandLabel(messages.refreshNodes(trans), trans),
    icon: refreshIcon,
    describedBy: noArgs,
    execute: () => model.refreshFromCloud()
  });
  commands.addCommand(CommandIDs.createNode, {
    label: args =>
      args.isNew === true
        ? messages.newNode(trans)
        : args.isLauncher === true
          ? messages.launchNode(trans)
          : commandLabel(messages.createNode(trans), trans)(args),
    caption: messages.createCaption(trans),
    icon: args => (args.isNew === true || args.isLauncher === true ? tpuIcon : addIcon),
    describedBy: specArgs,
    execute: async args => {
      if (isSpec(args)) {
        return model.createNode(args);
      }
      showPanel(app.shell);
      model.openForm();
    }
  });
  commands.addCommand(CommandIDs.openForm, {
    label: commandLabel(messages.openForm(trans), trans),
    describedBy: suggestionArgs,
    execute: args => {
      showPanel(app.shell);
      const open = isOpen(args.open) ? args.open : undefined;
      model.openForm({ way: wayOf(args), spec: suggestionOf(args), open });
    }
  });
  commands.addCommand(CommandIDs.openConsole, {
    label: commandLabel(messages.openConsole(trans), trans),
    describedBy: argsOf({ page: text, project: text, service: text }),
    execute: ({ page, project, service }) =>
      void window.open(consoleUrl(page, project, service), '_blank', 'noopener')
  });
  commands.addCommand(CommandIDs.copyCommand, {
    label: commandLabel(messages.copyCommand(trans), trans),
    describedBy: argsOf({ command_line: text }),
    execute: ({ command_line }) => {
      Clipboard.copyToSystem(command_line as string);
      Notification.success(copied(trans), { autoClose: COPIED_MS });
    }
  });
  commands.addCommand(CommandIDs.dismissFailure, {
    label: commandLabel(messages.dismissFailure(trans), trans),
    describedBy: argsOf({ intent_id: { type: 'string' } }),
    execute: args => model.dismissIntent(args.intent_id as string)
  });
}

function addNotebookCommands(context: ICommandContext): void {
  const { app, tracker, trans } = context;
  addNodeCommand(context, CommandIDs.openNotebook, {
    label: messages.openNotebook(trans),
    cardLabel: messages.openNotebookHere(trans),
    icon: notebookIcon,
    isEnabled: () => app.commands.hasCommand(NEW_NOTEBOOK),
    isPossible: hasKernel,
    act: async (given, { cwd }) => {
      const node = await withKernel(context, given);
      const args = { kernelName: node.kernelspec, cwd };
      return app.commands.execute(NEW_NOTEBOOK, args) as Promise<unknown>;
    }
  });
  addNodeCommand(context, CommandIDs.switchKernel, {
    label: messages.switchKernel(trans),
    cardLabel: messages.switchKernelHere(trans),
    icon: kernelIcon,
    isEnabled: () => Boolean(tracker?.currentWidget),
    isPossible: hasKernel,
    act: async given => {
      const notebook = tracker?.currentWidget;
      const node = await withKernel(context, given);
      await notebook?.sessionContext.changeKernel({ name: node.kernelspec ?? undefined });
    }
  });
  tracker?.currentChanged.connect(() => app.commands.notifyCommandChanged(CommandIDs.switchKernel));
}

/**
 * Return the node once its kernelspec is known; without it, JupyterLab would ask the user for a kernel. The list may
 * be older than what the user knows of the node.
 */
async function withKernel({ app, model, trans }: ICommandContext, given: INode): Promise<INode> {
  if (!hasKernel(given)) {
    await model.refreshFromCloud();
  }
  const node = model.findNode(given);
  if (!node || !hasKernel(node)) {
    throw new TpuRequestError(asProblem({ message: kernelNotReady(trans) }));
  }
  await ensureKernelspec(app, node);
  return node;
}

function addNodeCommands(context: ICommandContext): void {
  const { app, model, trans } = context;
  const isEmulated = (): boolean => model.status?.emulated ?? false;
  addNodeCommand(context, TerminalCommandIDs.open, {
    label: terminals.openTerminal(trans),
    cardLabel: terminals.openTerminalHere(trans),
    icon: terminalIcon,
    isEnabled: () => app.commands.hasCommand(TerminalCommandIDs.show),
    isPossible: isReady,
    act: ({ zone, node_id }, args) =>
      reportOnCard(args, () => app.commands.execute(TerminalCommandIDs.show, { zone, node_id }))
  });
  addNodeCommand(context, CommandIDs.stopNode, {
    label: messages.stopNode(trans),
    cardLabel: messages.stopHere(trans),
    icon: stopIcon,
    isPossible: isReady,
    act: async node => {
      if (await confirmStop(node, isEmulated(), trans)) {
        await model.stopNode(node);
      }
    }
  });
  addNodeCommand(context, CommandIDs.startNode, {
    label: messages.startNode(trans),
    cardLabel: messages.startHere(trans),
    icon: runIcon,
    isPossible: node => node.state === 'STOPPED' && !node.spot,
    act: node => model.startNode(node)
  });
  addNodeCommand(context, CommandIDs.deleteNode, {
    label: messages.deleteNode(trans),
    cardLabel: messages.deleteHere(trans),
    icon: deleteIcon,
    isPossible: node => node.state !== 'DELETING',
    act: async node => {
      if (await confirmDelete(node, isEmulated(), trans)) {
        await model.deleteNode(node);
      }
    }
  });
  addNodeCommand(context, CommandIDs.changeAutostop, {
    label: messages.changeAutostopOf(trans),
    cardLabel: messages.changeAutostop(trans),
    isPossible: ({ billing }) => billing,
    act: node => {
      showPanel(app.shell);
      model.revealAutostop(node);
      return Promise.resolve();
    }
  });
  app.commands.addCommand(CommandIDs.stopNodes, {
    label: messages.stopNodes(trans),
    describedBy: argsOf({ nodes: { type: 'array', items: { type: 'object' } } }),
    execute: args => stopNodes(context, args)
  });
  app.commands.addCommand(CommandIDs.cancelCreation, {
    label: messages.cancelCreation(trans),
    describedBy: keyArgs,
    isVisible: args => isCreating(context, args),
    isEnabled: args => isCreating(context, args),
    execute: async args => {
      const key = locatorIn(app)(args);
      if (isKey(key)) {
        await model.deleteNode(key);
      }
    }
  });
}

/** Stop several nodes after one confirmation; skip those that can no longer be stopped. */
async function stopNodes({ model, trans }: ICommandContext, args: Args): Promise<void> {
  const keys = Array.isArray(args.nodes) ? (args.nodes as Args[]).filter(isKey) : [];
  const nodes = keys.flatMap(key => model.findNode(key) ?? []).filter(isReady);
  const emulated = model.status?.emulated ?? false;
  if (nodes.length > 0 && (await confirmStopMany(nodes, emulated, trans))) {
    await Promise.all(nodes.map(node => model.stopNode(node)));
  }
}

function isReady({ state }: INode): boolean {
  return state === 'READY';
}

/** Whether the node is still being created. It has no data yet, so it is deleted without a confirmation. */
function isCreating({ app, model }: ICommandContext, args: Args): boolean {
  const key = locatorIn(app)(args);
  return isKey(key) && model.isCreating(key);
}

interface INodeCommand {
  label: string;
  /** The label in the menu of a node's card. */
  cardLabel: string;
  icon?: LabIcon;
  isEnabled?: () => boolean;
  isPossible: (node: INode) => boolean;
  /** Performs the command. If the result is a widget, it replaces the launcher from which the command was run. */
  act: (node: INode, args: Args) => Promise<unknown>;
}

/** Add a command for one node; if the arguments don't specify a node, the user chooses one. */
function addNodeCommand(context: ICommandContext, id: string, command: INodeCommand): void {
  const { app, model, trans } = context;
  const { label, cardLabel, icon, isEnabled, isPossible, act } = command;
  const locate = locatorIn(app);
  const isPossibleHere = (args: Args): boolean => {
    const key = locate(args);
    const node = isKey(key) ? model.findNode(key) : undefined;
    return node !== undefined && isPossible(node);
  };
  const hasNode = (args: Args): boolean => args.onCard === true || isKey(args);
  const isPossibleSomewhere = (): boolean => (model.list?.nodes ?? []).some(isPossible);
  notifyOfChanges(context, id, isPossibleSomewhere);
  const ownLabel = commandLabel(messages.withEllipsis(label, trans), trans);
  app.commands.addCommand(id, {
    label: args => {
      // the launcher shows the node's name on its card
      if (isKey(args) && args.isLauncher === true) {
        return args.node_id;
      }
      return args.onCard === true ? cardLabel : isKey(args) ? label : ownLabel(args);
    },
    caption: args => (isKey(args) ? messages.onNode(label, args.node_id, args.zone, trans) : label),
    icon: args => (args.isLauncher === true ? tpuIcon : icon),
    isEnabled: args => (isEnabled?.() ?? true) && (hasNode(args) || isPossibleSomewhere()),
    isVisible: args => args.onCard !== true || isPossibleHere(args),
    describedBy: keyArgs,
    execute: async given => {
      const args = locate(given);
      const node = isKey(args)
        ? model.findNode(args)
        : await chooseNode(model, isPossible, label, trans);
      return node && act(node, args);
    }
  });
}

/** Notify menus and the palette when a command without a node has become available or unavailable. */
export function notifyOfChanges(
  { app: { commands }, model }: { app: { commands: CommandRegistry }; model: ITpuModel },
  id: string,
  isPossible: () => boolean
): void {
  let before = isPossible();
  model.stateChanged.connect(() => {
    const now = isPossible();
    if (now !== before) {
      before = now;
      commands.notifyCommandChanged(id);
    }
  });
}

function isKey(args: Args): args is Args & INodeKey {
  return typeof args.zone === 'string' && typeof args.node_id === 'string';
}

function isSpec(args: Args): args is Args & INodeSpec {
  return isKey(args) && typeof args.accelerator_type === 'string';
}

/** Return the description of a command's arguments. */
export function argsOf(properties: JSONObject): Partial<CommandRegistry.Description> {
  return { args: { type: 'object', properties } };
}

const WAYS: readonly IFormRequest['way'][] = ['now', 'search', 'queue'];

function wayOf({ way }: Args): IFormRequest['way'] {
  return WAYS.find(one => one === way) ?? 'now';
}

/** Return the choice that an error's action suggests; the form fills in the rest. */
export function suggestionOf(args: Args): Partial<INodeSpec> {
  const texts = ['zone', 'node_id', 'accelerator_type', 'runtime_version'] as const;
  const known = texts.filter(name => typeof args[name] === 'string' && args[name] !== '');
  const asked = args.provisioning ?? (args.spot === true ? 'spot' : undefined);
  const provisioning = MODELS.find(model => model === asked);
  return {
    ...Object.fromEntries(known.map(name => [name, args[name]])),
    ...(provisioning ? { provisioning, spot: provisioning === 'spot' } : {}),
    ...(args.internal_ips === true ? { internal_ips: true } : {})
  };
}

const MODELS: readonly Provisioning[] = [
  'on-demand',
  'spot',
  'preemptible',
  'reserved',
  'flex-start'
];

export const text = { type: 'string' };

const noArgs = argsOf({});

const keyArgs = argsOf({
  zone: { type: 'string', description: 'Zone of the node' },
  node_id: { type: 'string', description: 'Name of the node' },
  onCard: { type: 'boolean', description: 'Whether to use the node whose context menu is open' }
});

const specArgs = argsOf({
  zone: { type: 'string', description: 'Zone of the node' },
  node_id: { type: 'string', description: 'Name of the node' },
  accelerator_type: { type: 'string', description: 'Accelerator type, such as v5litepod-8' },
  runtime_version: { type: 'string', description: 'Runtime version of the TPU VMs' },
  spot: { type: 'boolean', description: 'Whether to create a spot node' },
  internal_ips: { type: 'boolean', description: 'Whether the node has internal addresses only' }
});

const suggestionArgs = argsOf({
  way: { ...text, description: 'How to get the node: now, search or queue' },
  zone: { ...text, description: 'Zone of the node' },
  node_id: { ...text, description: 'Name of the node' },
  accelerator_type: { ...text, description: 'Accelerator type, such as v5litepod-8' },
  runtime_version: { ...text, description: 'Runtime version of the TPU VMs' },
  provisioning: { ...text, description: 'Provisioning model, such as spot' },
  internal_ips: { type: 'boolean', description: 'Whether the node has internal addresses only' },
  open: { type: 'object', description: 'What to open on the node when it is READY' }
});
