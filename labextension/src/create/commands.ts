/** Commands for profiles, for notebooks on new nodes, and for recreating a node. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { argsOf, suggestionOf, text } from '../commands';
import { stateKind } from '../format';
import { hasKernel, isBeingDeleted } from '../fleet';
import { tpuIcon } from '../icons';
import * as messages from '../messages/commands';
import { confirmRecreate } from '../nodedialogs';
import {
  CommandIDs,
  CreateCommandIDs,
  IFormRequest,
  INodeSpec,
  IOpenChoice,
  ITpuModel
} from '../tokens';
import { isOpen } from './memory';
import { IOpenContext, openOn } from './notebookopener';
import { OpenWhenReady } from './openwhenready';
import { ICreateMemory, IProfile } from './tokens';

export interface ICreateContext extends IOpenContext {
  readonly nodes: ITpuModel;
  readonly memory: ICreateMemory;
  readonly waiting: OpenWhenReady;
}

/** Add the commands. */
export function addCreateCommands(context: ICreateContext): void {
  addMemoryCommands(context);
  addNotebookCommands(context);
  addRecreateCommand(context);
}

function addMemoryCommands({ app: { commands }, memory, trans }: ICreateContext): void {
  commands.addCommand(CreateCommandIDs.saveProfile, {
    label: messages.saveProfile(trans),
    describedBy: argsOf({ name: text, choice: { type: 'object' } }),
    execute: args => memory.saveProfile(args as unknown as IProfile)
  });
  commands.addCommand(CreateCommandIDs.deleteProfile, {
    label: messages.deleteProfile(trans),
    describedBy: argsOf({ name: text }),
    execute: args => memory.deleteProfile(args.name as string)
  });
}

function addNotebookCommands(context: ICreateContext): void {
  const { app, nodes, memory, waiting, trans } = context;
  app.commands.addCommand(CreateCommandIDs.openWhenReady, {
    label: messages.openWhenReady(trans),
    describedBy: argsOf({ node_id: text, zone: text, open: { type: 'object' } }),
    execute: ({ node_id, zone, open }) => {
      if (isOpen(open)) {
        waiting.add(node_id as string, typeof zone === 'string' ? zone : null, open);
      }
    }
  });
  app.commands.addCommand(CreateCommandIDs.openExample, {
    label: args => messages.openExample(memory.example ?? '', args.isLauncher === true, trans),
    caption: messages.exampleCaption(trans),
    icon: tpuIcon,
    isEnabled: () => memory.example !== null,
    describedBy: argsOf({}),
    execute: async () => {
      const open: IOpenChoice = { kind: 'example', path: memory.example ?? '', runsAll: true };
      const ready = nodes.list?.nodes.find(hasKernel);
      if (ready) {
        return openOn(context, ready, { ...open, runsAll: false });
      }
      return openForm(app, { way: 'now', spec: {}, open });
    }
  });
}

/** Add the command that starts a stopped node again; for a deleted node, it opens the form with the same choice. */
function addRecreateCommand({ app, nodes, memory, trans }: ICreateContext): void {
  app.commands.addCommand(CreateCommandIDs.recreateNode, {
    label: messages.recreateNode(trans),
    icon: tpuIcon,
    describedBy: argsOf({
      ...{ zone: text, node_id: text, path: text },
      // the last known data, if the node no longer exists
      ...{ accelerator_type: text, runtime_version: text, provisioning: text },
      internal_ips: { type: 'boolean' }
    }),
    execute: async args => {
      const key = { zone: args.zone as string, node_id: args.node_id as string };
      const open = openOf(args.path);
      const known = nodes.findNode(key);
      if (known?.state === 'STOPPED' && !known.spot) {
        await app.commands.execute(CreateCommandIDs.openWhenReady, { ...key, open: { ...open } });
        return nodes.startNode(key);
      }
      const last = memory.choiceOf(key.node_id);
      const { way = 'now', ...choice } = last ?? {};
      const own = { ...choice, ...suggestionOf(args), ...(known && specOf(known)), ...key };
      if (known && stateKind(known.state) === 'lost' && !isBeingDeleted(nodes.list, known.name)) {
        // what is left of a lost node keeps its name and uses quota
        if (!(await confirmRecreate(known, nodes.status?.emulated ?? false, trans))) {
          return undefined;
        }
        await nodes.deleteNode(key);
      }
      // a name in use is left to the form, which suggests another one
      const left = nodes.findNode(key);
      const isFree = !left || isBeingDeleted(nodes.list, left.name);
      return openForm(app, { way, spec: isFree ? own : { ...own, node_id: '' }, open });
    }
  });
}

/** Open the node's notebook on the new node; the user reruns its cells later. */
function openOf(path: unknown): IOpenChoice {
  return typeof path === 'string' && path !== ''
    ? { kind: 'notebook', path, runsAll: false }
    : { kind: 'none', runsAll: false };
}

function specOf(node: INodeSpec): Partial<INodeSpec> {
  const { accelerator_type, runtime_version, provisioning, spot } = node;
  return { accelerator_type, runtime_version, provisioning, spot };
}

function openForm(app: JupyterFrontEnd, request: Omit<IFormRequest, 'turn'>): Promise<unknown> {
  const { way, spec, open } = request;
  return app.commands.execute(CommandIDs.openForm, { way, ...spec, open: { ...open } });
}
