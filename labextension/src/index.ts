/** The plugins of the extension; each can be disabled on its own. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ILink } from './api.generated';
import { addCommands } from './commands';
import { createMemory, launcher } from './create/plugin';
import { ICreateMemory } from './create/tokens';
import { CreationNotices } from './creationnotices';
import { ErrorActions } from './erroractions';
import { FailureNotices } from './failures';
import { sshCommand } from './fleet';
import { setLanguage } from './money/moments';
import { KernelStatus } from './notebooktoolbar';
import { load } from './load/plugin';
import { ILoadModel } from './load/tokens';
import * as common from './messages/common';
import { copySshCommand } from './messages/problems';
import { TpuModel } from './model';
import { autostopWarning, money, spendStatus } from './money/plugin';
import { IMoneyModel } from './money/tokens';
import { whenIdle } from './idle';
import { mayRunOnNode } from './nodekernel';
import { NodeKernels } from './nodes/kernels';
import { cardOf, MORE } from './nodes/target';
import type { PanelView } from './panelview';
import { Reconnector } from './reconnect';
import { replay } from './replay/plugin';
import { TpuClient } from './request';
import { RefusedRestarts } from './restart';
import { addRestoreCommands, RESTORE_PALETTE } from './restore/commands';
import { RestoredNotice } from './restore/notice';
import { Restorers } from './restore/restorers';
import { SeenRequests } from './restore/seen';
import { RecordSource } from './restore/source';
import { setup } from './setup/plugin';
import { ISetupModel } from './setup/tokens';
import { simulator } from './simulator/plugin';
import {
  addTab,
  addToNewMenu,
  isTreePage,
  keepKernelOfNewNotebooks
} from './surfaces/notebooktree';
import { nodeNotices, notebookCommands, running, settings } from './surfaces/plugins';
import { terminals } from './terminals/plugin';
import { INodeTerminals, TerminalCommandIDs } from './terminals/tokens';
import {
  CommandIDs,
  INodeKey,
  ILinkEvent,
  IRefusedRestarts,
  ITpuModel,
  LINK_SCHEMA,
  PANEL_ID,
  RestoreCommandIDs
} from './tokens';
import { UntrustedOutputs } from './untrusted';
import { TpuPanel } from './widget';
import { retryRendering } from './widgetviews';
import { keepFolds } from './workerfolds';

const DOMAIN = 'jupyter_tpu';

const model: JupyterFrontEndPlugin<ITpuModel> = {
  id: 'jupyter-tpu:model',
  description: 'The nodes of the Cloud TPU project.',
  autoStart: true,
  provides: ITpuModel,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null): ITpuModel => {
    const { serviceManager } = app;
    if (translator) {
      setLanguage(translator.languageCode);
    }
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const client = new TpuClient(serviceManager.serverSettings, trans);
    const nodes = new TpuModel(client, serviceManager.events.stream);
    nodes.kernelspecsChanged.connect(() => void serviceManager.kernelspecs.refreshSpecs());
    whenIdle(app, () => nodes.start());
    return nodes;
  }
};

const commands: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:commands',
  description: 'Creates, stops, starts and deletes nodes and opens notebooks on them.',
  autoStart: true,
  requires: [ITpuModel],
  optional: [ITranslator, ICommandPalette, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    tracker: INotebookTracker | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    addCommands({ app, model: nodes, trans, tracker });
    const category = common.product(trans);
    PALETTE.forEach(command => palette?.addItem({ command, category }));
  }
};

const creationNotices: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:creation-notices',
  description: 'Notifies of failed creations while the TPU panel is closed.',
  autoStart: true,
  requires: [ITpuModel],
  optional: [ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const notices = new CreationNotices(nodes, new ErrorActions(commands, trans));
    nodes.stateChanged.connect(notices.onChange);
  }
};

const PALETTE = [
  CommandIDs.openPanel,
  CommandIDs.createNode,
  CommandIDs.openNotebook,
  CommandIDs.switchKernel,
  TerminalCommandIDs.open,
  CommandIDs.stopNode,
  CommandIDs.startNode,
  CommandIDs.deleteNode,
  CommandIDs.refresh
];

const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:panel',
  description: 'The TPU panel in the left sidebar.',
  autoStart: true,
  requires: [ITpuModel],
  optional: [
    ITranslator,
    ILayoutRestorer,
    IMoneyModel,
    ILoadModel,
    ICreateMemory,
    ISetupModel,
    INodeTerminals
  ],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    money: IMoneyModel | null,
    load: ILoadModel | null,
    memory: ICreateMemory | null,
    setup: ISetupModel | null,
    terminals: INodeTerminals | null
  ): void => {
    const { sessions, kernels: running, events } = app.serviceManager;
    const kernels = new NodeKernels(sessions, running, events.stream);
    const texts = translator ?? nullTranslator;
    const parts = { model: nodes, money, load, kernels, memory, setup, terminals };
    const loadView = async (update: () => void): Promise<PanelView> => {
      const { PanelView } = await import('./panelview');
      return new PanelView({ ...parts, commands: app.commands, translator: texts }, update);
    };
    const watched = [nodes, money, load, setup].filter(model => model !== null);
    const widget = new TpuPanel(nodes, watched, loadView, texts.load(DOMAIN));
    whenIdle(app, () => void widget.load());
    // the keyboard focus returns to the card whose menu was closed
    app.contextMenu.menu.aboutToClose.connect(() =>
      cardOf(app)?.querySelector<HTMLElement>(`.${MORE}`)?.focus()
    );
    if (isTreePage()) {
      keepKernelOfNewNotebooks(app, nodes);
      void app.restored.then(() => {
        addTab(app, widget);
        addToNewMenu(app);
      });
    } else {
      app.shell.add(widget, 'left', { rank: 250, type: 'Cloud TPU' });
      restorer?.add(widget, PANEL_ID);
    }
  }
};

const kernelStatus: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:kernel-status',
  description: 'Shows in a notebook how its kernel starts on a node, and whether it is connected.',
  autoStart: true,
  optional: [ITranslator, IToolbarWidgetRegistry, ITpuModel],
  activate: (
    { commands, serviceManager }: JupyterFrontEnd,
    translator: ITranslator | null,
    toolbars: IToolbarWidgetRegistry | null,
    nodes: ITpuModel | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const { stream } = serviceManager.events;
    const client = new TpuClient(serviceManager.serverSettings, trans);
    const fetchLink = (kernelId: string): Promise<ILink> => client.link(kernelId);
    const statuses = new Set<KernelStatus>();
    toolbars?.addFactory<NotebookPanel>('Notebook', 'tpu-kernel-status', ({ sessionContext }) => {
      const status = new KernelStatus(sessionContext, stream, fetchLink, trans);
      statuses.add(status);
      status.disposed.connect(() => statuses.delete(status));
      return status;
    });
    const copySsh = (key: INodeKey): Notification.IAction => ({
      label: copySshCommand(trans),
      callback: () =>
        void commands.execute(CommandIDs.copyCommand, { command_line: sshCommand(key) })
    });
    const notices = new FailureNotices(copySsh, start =>
      [...statuses].some(status => status.concerns(start))
    );
    stream.connect(notices.onEvent);
    nodes?.stateChanged.connect(() => notices.onNodes(nodes.list));
  }
};

const reconnect: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:reconnect',
  description: 'Reconnects notebooks to their kernels on nodes as soon as the server answers.',
  autoStart: true,
  optional: [INotebookTracker],
  activate: ({ serviceManager }: JupyterFrontEnd, tracker: INotebookTracker | null): void => {
    const client = new TpuClient(serviceManager.serverSettings);
    const reconnector = new Reconnector(
      () => client.status(),
      ({ name }) => mayRunOnNode(name, serviceManager.kernelspecs.specs)
    );
    tracker?.widgetAdded.connect((_, { sessionContext }) => reconnector.watch(sessionContext));
  }
};

const refusedRestarts: JupyterFrontEndPlugin<IRefusedRestarts> = {
  id: 'jupyter-tpu:refused-restarts',
  description: 'Reconnects notebooks to kernels on nodes whose restart was refused, and shows why.',
  autoStart: true,
  provides: IRefusedRestarts,
  optional: [ITranslator, INotebookTracker],
  activate: (
    { serviceManager }: JupyterFrontEnd,
    translator: ITranslator | null,
    tracker: INotebookTracker | null
  ): IRefusedRestarts => {
    const restarts = new RefusedRestarts(
      ({ name }) => mayRunOnNode(name, serviceManager.kernelspecs.specs),
      (translator ?? nullTranslator).load(DOMAIN)
    );
    tracker?.widgetAdded.connect((_, { sessionContext }) => restarts.watch(sessionContext));
    return restarts;
  }
};

const RESTORED_OUTPUTS = 'jupyter-tpu:restored-outputs';

const restoredOutputs: JupyterFrontEndPlugin<void> = {
  id: RESTORED_OUTPUTS,
  description: 'Restores the outputs that a notebook missed, as untrusted if set.',
  autoStart: true,
  requires: [ITpuModel, INotebookTracker],
  optional: [
    ITranslator,
    IToolbarWidgetRegistry,
    ISettingRegistry,
    ICommandPalette,
    IRefusedRestarts
  ],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    toolbars: IToolbarWidgetRegistry | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restarts: IRefusedRestarts | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const client = new TpuClient(app.serviceManager.serverSettings, trans);
    const untrusted = new UntrustedOutputs(name =>
      mayRunOnNode(name, app.serviceManager.kernelspecs.specs)
    );
    const source = new RecordSource(client, app.serviceManager, untrusted);
    const restorers = new Restorers(source, new SeenRequests(window.localStorage));
    restorers.collaborationFound.connect(() => (nodes.isCollaborative = true));
    addRestoreCommands({ app, tracker, restorers, client, trans });
    RESTORE_PALETTE.forEach(command =>
      palette?.addItem({ command, category: common.product(trans) })
    );
    toolbars?.addFactory<NotebookPanel>('Notebook', 'tpu-restored-outputs', panel => {
      const show = (): void =>
        void app.commands.execute(RestoreCommandIDs.showOutputs, { path: panel.context.path });
      return new RestoredNotice(restorers.of(panel), trans, show);
    });
    tracker.widgetAdded.connect((_, panel) => {
      untrusted.watch(panel);
      restorers.of(panel);
    });
    app.serviceManager.events.stream.connect((_, event) => {
      const { kernel_id, state } = event as unknown as ILinkEvent;
      if (event.schema_id === LINK_SCHEMA && state === 'live') {
        restorers.retry(kernel_id);
      }
    });
    restarts?.refused.connect((_, { id }) => restorers.resume(id));
    void follow(settings, restorers, untrusted);
  }
};

/** Apply the user's settings; without a settings registry, outputs are restored and trusted. */
async function follow(
  settings: ISettingRegistry | null,
  restorers: Restorers,
  untrusted: UntrustedOutputs
): Promise<void> {
  const own = await settings?.load(RESTORED_OUTPUTS).catch(() => null);
  const apply = (): void => {
    untrusted.isOn = (own?.get('untrustedOutputs').composite ?? false) as boolean;
    restorers.isOn = (own?.get('restoreOutputs').composite ?? true) as boolean;
  };
  own?.changed.connect(apply);
  apply();
}

const widgetViews: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:widget-views',
  description: 'Shows widgets that arrive just after JupyterLab stopped looking for them.',
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker | null): void => {
    tracker?.widgetAdded.connect((_, { content }) => retryRendering(content.rendermime));
  }
};

const workerFolds: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:worker-folds',
  description: 'Keeps opened output of other workers open while their cell runs.',
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker | null): void => {
    tracker?.widgetAdded.connect((_, { content }) => keepFolds(content.rendermime));
  }
};

export default [
  model,
  commands,
  creationNotices,
  createMemory,
  launcher,
  money,
  spendStatus,
  autostopWarning,
  load,
  setup,
  settings,
  running,
  notebookCommands,
  nodeNotices,
  panel,
  kernelStatus,
  reconnect,
  refusedRestarts,
  restoredOutputs,
  widgetViews,
  workerFolds,
  terminals,
  replay,
  simulator
];
