/** The plugins of the money sections: model, commands, status bar, auto-stop warning. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar, Popup, showPopup } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { AutostopWarning } from '../autostop/warning';
import { ErrorActions } from '../erroractions';
import { whenIdle } from '../idle';
import { ILoadModel } from '../load/tokens';
import * as common from '../messages/common';
import { nodeNameOf } from '../nodekernel';
import { locatorIn } from '../nodes/target';
import { problemOf, TpuClient } from '../request';
import { SpendStatus } from '../spend/statusitem';
import { StatusPopup } from '../spend/statuspopup';
import { showPanel } from '../surfaces/notebooktree';
import { CommandIDs, ITpuModel } from '../tokens';
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
    const { commands, serviceManager, shell } = app;
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const client = new MoneyClient(new TpuClient(serviceManager.serverSettings, trans));
    const model = new MoneyModel(client, serviceManager.events.stream);
    const locate = locatorIn(app);
    addMoneyCommands({ commands, model, nodes, showPanel: () => showPanel(shell), locate, trans });
    palette?.addItem({ command: MoneyCommandIDs.stopAll, category: common.product(trans) });
    whenIdle(app, () => model.start());
    return model;
  }
};

export const spendStatus: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:money-status',
  description: 'Shows cost, load, budget and the next auto-stop in the status bar, with a pop-up.',
  autoStart: true,
  requires: [IMoneyModel, ITpuModel],
  optional: [ITranslator, IStatusBar, ILoadModel, INotebookTracker],
  activate: (
    { commands, serviceManager }: JupyterFrontEnd,
    money: IMoneyModel,
    nodes: ITpuModel,
    translator: ITranslator | null,
    statusBar: IStatusBar | null,
    load: ILoadModel | null,
    tracker: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const errors = new ErrorActions(commands, trans);
    let popup: Popup | null = null;
    const close = (): void => {
      popup?.dispose();
      item.node.querySelector('button')?.focus();
    };
    const run = (command: string) => (): void => {
      close();
      commands.execute(command).catch(error => errors.notify(problemOf(error)));
    };
    const actions = {
      onOpenPanel: run(CommandIDs.openPanel),
      onCreate: run(CommandIDs.createNode),
      onStopAll: run(MoneyCommandIDs.stopAll)
    };
    const open = (): void => {
      if (popup && !popup.isDisposed) {
        close();
        return;
      }
      const body = new StatusPopup({ nodes, money, load, actions, trans });
      popup = showPopup({ body, anchor: item, align: 'left', hasDynamicSize: true });
      popup.disposed.connect(() => {
        if (
          document.activeElement === document.body ||
          body.node.contains(document.activeElement)
        ) {
          item.node.querySelector('button')?.focus();
        }
      });
      void Promise.allSettled([nodes.refresh(), money.refresh()]);
    };
    // the same source as JupyterLab's own "Busy" beside the item
    const busy = (): ReadonlySet<string> => {
      const names = new Set<string>();
      tracker?.forEach(({ sessionContext }) => {
        const kernel = sessionContext.session?.kernel;
        const name = kernel && nodeNameOf(kernel.name, serviceManager.kernelspecs.specs);
        if (name && kernel.status === 'busy') {
          names.add(name);
        }
      });
      return names;
    };
    const item = new SpendStatus(money, nodes, busy, trans, open);
    tracker?.widgetAdded.connect((_, { sessionContext }) =>
      sessionContext.statusChanged.connect(() => item.update())
    );
    statusBar?.registerStatusItem('jupyter-tpu:money-status', { item, align: 'left', rank: 90 });
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
