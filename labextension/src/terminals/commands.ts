/** The commands that show and shut down terminals on nodes. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ITerminal } from '@jupyterlab/terminal';
import { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import * as messages from '../messages/terminals';
import { confirmShutDownTerminal } from '../nodedialogs';
import { asProblem, TpuRequestError } from '../request';
import { INodeKey } from '../tokens';
import { NodeTerminals } from './model';
import { TerminalCommandIDs } from './tokens';

type Args = ReadonlyPartialJSONObject;
export type Tab = MainAreaWidget<ITerminal.ITerminal>;

interface IContext {
  readonly app: JupyterFrontEnd;
  readonly model: NodeTerminals;
  readonly settings: ISettingRegistry | null;
  readonly tracker: WidgetTracker<Tab>;
  readonly translator: ITranslator;
  readonly trans: TranslationBundle;
}

/** The node and the terminal of each tab. */
const TABS = new WeakMap<Tab, INodeKey & { readonly terminal: string }>();

/** The arguments that show a tab's terminal again. */
export function argsOfTab(tab: Tab): Args {
  return { ...TABS.get(tab) };
}

/** A name for a tab that no other tab has. */
export function nameOfTab(tab: Tab): string {
  return tab.id;
}

export function addTerminalCommands(context: IContext): void {
  const { app, model, trans } = context;
  app.commands.addCommand(TerminalCommandIDs.show, {
    label: messages.showTerminal(trans),
    describedBy: argsDescription,
    execute: async args => {
      if (!isTerminal(args) && !isNode(args)) {
        return undefined;
      }
      if (!areAvailable()) {
        throw new TpuRequestError(
          asProblem({
            message: messages.unavailable(trans),
            hint: messages.installTerminals(trans)
          })
        );
      }
      const terminal = isTerminal(args) ? args.terminal : (await model.open(args)).name;
      return show(context, { zone: args.zone, node_id: args.node_id, terminal });
    }
  });
  app.commands.addCommand(TerminalCommandIDs.shutDown, {
    label: messages.shutDownTerminal(trans),
    describedBy: argsDescription,
    execute: async args => {
      if (!isTerminal(args)) {
        return;
      }
      const command = model.of(args).find(({ name }) => name === args.terminal)?.command;
      if (!command || (await confirmShutDownTerminal(command, args.node_id, trans))) {
        await model.shutDown(args, args.terminal);
      }
    }
  });
}

/** Show the tab of a terminal, or open one. */
async function show(
  { app, model, settings, tracker, translator, trans }: IContext,
  { terminal, ...key }: INodeKey & { terminal: string }
): Promise<Tab> {
  const isShown = (tab: Tab): boolean =>
    JSON.stringify(argsOfTab(tab)) === JSON.stringify({ ...key, terminal });
  let tab = tracker.find(isShown);
  if (!tab) {
    const { terminalWidget } = await import('./widget');
    const caption = messages.terminalOn(key.node_id, key.zone, trans);
    tab = await terminalWidget({ app, settings, translator, key, name: terminal, caption });
    TABS.set(tab, { ...key, terminal });
    tab.disposed.connect(() => void model.refresh(key));
    app.shell.add(tab, 'main', { type: 'Terminal' });
    await tracker.add(tab);
  }
  app.shell.activateById(tab.id);
  return tab;
}

/** Whether JupyterLab's terminals can be used: without its server's package, its widget refuses to connect. */
function areAvailable(): boolean {
  return PageConfig.getOption('terminalsAvailable').toLowerCase() === 'true';
}

function isNode(args: Args): args is Args & INodeKey {
  return typeof args.zone === 'string' && typeof args.node_id === 'string';
}

function isTerminal(args: Args): args is Args & INodeKey & { terminal: string } {
  return isNode(args) && typeof args.terminal === 'string';
}

const text = { type: 'string' } as const;
const argsDescription = {
  args: { type: 'object', properties: { zone: text, node_id: text, terminal: text } }
} as const;
