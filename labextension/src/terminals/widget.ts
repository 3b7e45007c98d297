/** The widget of a terminal on a node. Loaded when the first terminal is opened. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { TerminalManager } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITerminal, Terminal } from '@jupyterlab/terminal';
import { ITranslator } from '@jupyterlab/translation';
import { terminalIcon } from '@jupyterlab/ui-components';
import { INodeKey } from '../tokens';
import { terminalSettings } from './connection';

/** JupyterLab's plugin of terminals, whose settings apply to ours too. */
const JUPYTERLABS = '@jupyterlab/terminal-extension:plugin';

export interface ITerminalOptions {
  readonly app: JupyterFrontEnd;
  readonly settings: ISettingRegistry | null;
  readonly translator: ITranslator;
  readonly key: INodeKey;
  readonly name: string;
  readonly caption: string;
}

/** Connect to a terminal that exists; its widget closes when its shell exits. */
export async function terminalWidget(
  given: ITerminalOptions
): Promise<MainAreaWidget<ITerminal.ITerminal>> {
  const { app, key, name, caption } = given;
  const options = await given.settings?.load(JUPYTERLABS).catch(() => null);
  // JupyterLab's client without its poll, which would end connections to terminals that it doesn't find in the list
  const manager = new TerminalManager({
    serverSettings: terminalSettings(app.serviceManager.serverSettings, key),
    standby: () => true
  });
  const session = manager.connectTo({ model: { name } });
  const content = new Terminal(session, { ...options?.composite }, given.translator);
  content.title.icon = terminalIcon;
  content.title.caption = caption;
  // JupyterLab sets the terminal's name, which is a random number on a node
  const keepLabel = (): void => {
    if (content.title.label !== key.node_id) {
      content.title.label = key.node_id;
    }
  };
  keepLabel();
  content.title.changed.connect(keepLabel);
  // so that the user can type at once
  void content.ready.then(() => content.isVisible && content.activate());
  const widget = new MainAreaWidget({ content });
  widget.id = `jp-tpu-terminal-${key.zone}-${key.node_id}-${name}`;
  widget.disposed.connect(() => manager.dispose());
  return widget;
}
