/** The command that opens the failure simulator, and its page. Loaded only where the cloud is emulated. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IOffers } from '../api.generated';
import { tpuIcon } from '../icons';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as common from '../messages/common';
import { TpuClient } from '../request';
import { addSimulatorCommands } from './commands';
import { SimulatorModel } from './model';
import { SIMULATOR_ID, SimulatorCommandIDs } from './tokens';
import { Simulator } from './widget';

/** Add the commands of the simulator. */
export function addSimulator(app: JupyterFrontEnd, trans: TranslationBundle): void {
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
          shell.add(page, 'right'); // the main area of Notebook 7 holds only one widget
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
