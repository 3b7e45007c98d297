/** The plugin of the load of nodes: model and command. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as common from '../messages/common';
import { locatorIn } from '../nodes/target';
import { TpuClient } from '../request';
import { ITpuModel } from '../tokens';
import { LoadClient } from './client';
import { addLoadCommands } from './commands';
import { LoadModel } from './model';
import { ILoadModel, LoadCommandIDs } from './tokens';

export const load: JupyterFrontEndPlugin<ILoadModel> = {
  id: 'jupyter-tpu:load',
  description: 'The load of the chips of each node, and the release of chips.',
  autoStart: true,
  provides: ILoadModel,
  requires: [ITpuModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): ILoadModel => {
    const { commands, serviceManager } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_tpu');
    const model = new LoadModel(
      new LoadClient(new TpuClient(serviceManager.serverSettings, trans))
    );
    addLoadCommands({ commands, model, nodes, locate: locatorIn(app), trans });
    palette?.addItem({ command: LoadCommandIDs.release, category: common.product(trans) });
    return model;
  }
};
