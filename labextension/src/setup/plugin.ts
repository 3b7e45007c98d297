/** The plugin of the set-up. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { whenIdle } from '../idle';
import * as common from '../messages/common';
import { TpuClient } from '../request';
import { showPanel } from '../surfaces/notebooktree';
import { ITpuModel } from '../tokens';
import { addSetupCommands } from './commands';
import { SetupModel } from './model';
import { ISetupModel, SetupCommandIDs } from './tokens';

export const setup: JupyterFrontEndPlugin<ISetupModel> = {
  id: 'jupyter-tpu:setup',
  description: 'The first steps, what is missing in the project, and the emulated cloud.',
  autoStart: true,
  provides: ISetupModel,
  requires: [ITpuModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): ISetupModel => {
    const { commands, serviceManager, shell } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_tpu');
    const client = new TpuClient(serviceManager.serverSettings, trans);
    const model = new SetupModel(client, nodes, window.localStorage);
    const context = { commands, services: serviceManager, model, nodes, trans };
    addSetupCommands({ ...context, showPanel: () => showPanel(shell) });
    const category = common.product(trans);
    PALETTE.forEach(command => palette?.addItem({ command, category }));
    const { kernels } = serviceManager;
    const onKernels = (): void => model.onKernels([...kernels.running()].map(({ name }) => name));
    kernels.runningChanged.connect(onKernels);
    nodes.stateChanged.connect(onKernels);
    whenIdle(app, () => model.start());
    return model;
  }
};

const PALETTE = [SetupCommandIDs.open, SetupCommandIDs.startTrial, SetupCommandIDs.endTrial];
