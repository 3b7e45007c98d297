/** The plugins of the extension, each of which can be disabled alone. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Event } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { addCommands } from './commands';
import { KernelStatus } from './kernelstatus';
import { TpuModel } from './model';
import { TpuClient } from './request';
import { CommandIDs, IKernelEvent, ITpuModel, KERNEL_SCHEMA, PANEL_ID } from './tokens';
import { TpuPanel } from './widget';

const DOMAIN = 'jupyter_tpu';

const model: JupyterFrontEndPlugin<ITpuModel> = {
  id: 'jupyter-tpu:model',
  description: 'Knows the nodes of the Cloud TPU project.',
  autoStart: true,
  provides: ITpuModel,
  activate: ({ serviceManager, started }: JupyterFrontEnd): ITpuModel => {
    const client = new TpuClient(serviceManager.serverSettings);
    const nodes = new TpuModel(client, serviceManager.events.stream);
    nodes.kernelspecsChanged.connect(() => void serviceManager.kernelspecs.refreshSpecs());
    void started.then(() => nodes.start());
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
    const category = trans.__('Cloud TPU');
    PALETTE.forEach(command => palette?.addItem({ command, category }));
  }
};

const PALETTE = [
  CommandIDs.openPanel,
  CommandIDs.createNode,
  CommandIDs.openNotebook,
  CommandIDs.switchKernel,
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
  optional: [ITranslator, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const widget = new TpuPanel(nodes, app.commands, translator ?? nullTranslator);
    app.shell.add(widget, 'left', { rank: 250, type: 'Cloud TPU' });
    restorer?.add(widget, PANEL_ID);
  }
};

const kernelStatus: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:kernel-status',
  description: 'Shows in a notebook how far the start of its kernel on a node has come.',
  autoStart: true,
  optional: [ITranslator, IToolbarWidgetRegistry],
  activate: (
    { serviceManager }: JupyterFrontEnd,
    translator: ITranslator | null,
    toolbars: IToolbarWidgetRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const { stream } = serviceManager.events;
    toolbars?.addFactory<NotebookPanel>(
      'Notebook',
      'tpu-kernel-status',
      ({ sessionContext }) => new KernelStatus(sessionContext, stream, trans)
    );
    stream.connect(notifyFailure);
  }
};

/** A kernel that does not start is told of even when its notebook is not in sight. */
function notifyFailure(_: Event.IManager, event: Event.Emission): void {
  const { error_code, message } = event as unknown as IKernelEvent;
  if (event.schema_id === KERNEL_SCHEMA && error_code) {
    Notification.error(message, { autoClose: false });
  }
}

export default [model, commands, panel, kernelStatus];
