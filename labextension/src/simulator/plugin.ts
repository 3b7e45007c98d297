/** The failure simulator of the demo: it does not exist where the cloud is real. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IOffers } from '../api.generated';
import { tpuIcon } from '../icons';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as common from '../messages/common';
import { TpuClient } from '../request';
import { ITpuModel } from '../tokens';
import { addSimulatorCommands } from './commands';
import { SimulatorModel } from './model';
import { SIMULATOR_ID, SimulatorCommandIDs } from './tokens';
import { Simulator } from './widget';

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
    const addOnce = (): void => {
      if (nodes.status?.switchboard) {
        nodes.stateChanged.disconnect(addOnce);
        addSimulator(app, trans);
        const category = common.product(trans);
        PALETTE.forEach(command => palette?.addItem({ command, category }));
      }
    };
    nodes.stateChanged.connect(addOnce);
    addOnce();
  }
};

const PALETTE = [SimulatorCommandIDs.open, SimulatorCommandIDs.reset];

function addSimulator(app: JupyterFrontEnd, trans: TranslationBundle): void {
  const { commands, serviceManager, shell } = app;
  const client = new TpuClient(serviceManager.serverSettings, trans);
  const model = new SimulatorModel(client);
  addSimulatorCommands(commands, model, trans);
  let offers: Promise<IOffers> | null = null;
  let page: MainAreaWidget<Simulator> | null = null;
  commands.addCommand(SimulatorCommandIDs.open, {
    label: commandLabel(messages.showSimulator(trans), trans),
    caption: common.simulatorSummary(trans),
    icon: tpuIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => {
      if (!page || page.isDisposed) {
        offers ??= client.offers();
        page = pageOf(new Simulator(model, offers, commands, trans));
        shell.add(page, 'main');
        if (!page.isAttached) {
          shell.add(page, 'right'); // Notebook 7 has one widget in its main area
        }
      }
      shell.activateById(page.id);
    }
  });
}

function pageOf(content: Simulator): MainAreaWidget<Simulator> {
  const page = new MainAreaWidget({ content });
  page.id = SIMULATOR_ID;
  page.title.label = content.title.label;
  page.title.icon = tpuIcon;
  page.title.closable = true;
  page.toolbar.hide();
  return page;
}
