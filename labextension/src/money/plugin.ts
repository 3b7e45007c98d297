/** The plugins of the money sections: model, commands, status bar, auto-stop warning. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { AutostopWarning } from '../autostop/warning';
import * as common from '../messages/common';
import { locatorIn } from '../nodes/target';
import { TpuClient } from '../request';
import { SpendStatus } from '../spend/statusitem';
import { CommandIDs, ITpuModel, PANEL_ID } from '../tokens';
import { moneyActions } from './actions';
import { MoneyClient } from './client';
import { addMoneyCommands } from './commands';
import { MoneyModel } from './model';
import { IMoneyModel, MoneyCommandIDs } from './tokens';

const DOMAIN = 'jupyter_tpu';

export const money: JupyterFrontEndPlugin<IMoneyModel> = {
  id: 'jupyter-tpu:money',
  description: 'Spending, auto-stop, quota and capacity.',
  autoStart: true,
  provides: IMoneyModel,
  requires: [ITpuModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): IMoneyModel => {
    const { commands, serviceManager, shell, started } = app;
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const client = new MoneyClient(new TpuClient(serviceManager.serverSettings, trans));
    const model = new MoneyModel(client, serviceManager.events.stream);
    const showPanel = (): void => shell.activateById(PANEL_ID);
    addMoneyCommands({ commands, model, nodes, showPanel, locate: locatorIn(app), trans });
    palette?.addItem({ command: MoneyCommandIDs.stopAll, category: common.product(trans) });
    void started.then(() => model.start());
    return model;
  }
};

export const spendStatus: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:money-status',
  description: 'Shows the cost per hour and the next auto-stop in the status bar.',
  autoStart: true,
  requires: [IMoneyModel],
  optional: [ITranslator, IStatusBar],
  activate: (
    { commands }: JupyterFrontEnd,
    model: IMoneyModel,
    translator: ITranslator | null,
    statusBar: IStatusBar | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const open = (): void => void commands.execute(CommandIDs.openPanel);
    statusBar?.registerStatusItem('jupyter-tpu:money-status', {
      item: new SpendStatus(model, trans, open),
      align: 'left',
      rank: 90
    });
  }
};

export const autostopWarning: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:end-warning',
  description:
    'Warns in a notebook before the auto-stop of its node, with buttons to keep it running.',
  autoStart: true,
  requires: [IMoneyModel],
  optional: [ITranslator, INotebookTracker],
  activate: (
    { commands }: JupyterFrontEnd,
    model: IMoneyModel,
    translator: ITranslator | null,
    tracker: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const actions = moneyActions(model, commands);
    tracker?.widgetAdded.connect((_, panel) => {
      const focus = (): void => panel.content.activate();
      const { sessionContext, contentHeader } = panel;
      contentHeader.addWidget(new AutostopWarning(sessionContext, model, actions, focus, trans));
    });
  }
};
