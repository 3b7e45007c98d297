/** The plugin of the failure simulator, which exists only where the cloud is emulated. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as common from '../messages/common';
import { ITpuModel } from '../tokens';
import { SimulatorCommandIDs } from './tokens';

export const simulator: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:switchboard',
  description: 'The failure simulator of the emulated cloud.',
  autoStart: true,
  requires: [ITpuModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_tpu');
    const add = async (): Promise<void> => {
      const { addSimulator } = await import('./opener');
      addSimulator(app, trans);
      const category = common.product(trans);
      PALETTE.forEach(command => palette?.addItem({ command, category }));
    };
    const addOnce = (): void => {
      if (nodes.status?.switchboard) {
        nodes.stateChanged.disconnect(addOnce);
        add().catch(() => nodes.stateChanged.connect(addOnce)); // the server was not reachable
      }
    };
    nodes.stateChanged.connect(addOnce);
    addOnce();
  }
};

const PALETTE = [SimulatorCommandIDs.open, SimulatorCommandIDs.reset];
