/** The plugin of terminals on nodes: commands, and the tabs that are restored when the page is loaded again. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager, WidgetTracker } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { TpuClient } from '../request';
import { addTerminalCommands, argsOfTab, nameOfTab, Tab } from './commands';
import { NodeTerminals } from './model';
import { INodeTerminals, TerminalCommandIDs } from './tokens';

export const terminals: JupyterFrontEndPlugin<INodeTerminals> = {
  id: 'jupyter-tpu:terminals',
  description: 'Opens terminals on nodes.',
  autoStart: true,
  provides: INodeTerminals,
  optional: [ITranslator, ISettingRegistry, ILayoutRestorer, IThemeManager],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    themes: IThemeManager | null
  ): INodeTerminals => {
    const texts = translator ?? nullTranslator;
    const trans = texts.load('jupyter_tpu');
    const model = new NodeTerminals(new TpuClient(app.serviceManager.serverSettings, trans));
    const tracker = new WidgetTracker<Tab>({ namespace: 'jupyter-tpu-terminal' });
    addTerminalCommands({ app, model, settings, tracker, translator: texts, trans });
    void restorer?.restore(tracker, {
      command: TerminalCommandIDs.show,
      args: argsOfTab,
      name: nameOfTab
    });
    // JupyterLab's terminal widget does not follow a later change of the theme
    themes?.themeChanged.connect(() =>
      tracker.forEach(({ content }) => content.setOption('theme', content.getOption('theme')))
    );
    return model;
  }
};
