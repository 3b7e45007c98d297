/** The commands of the set-up. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { KernelSpec, ServiceManager } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject } from '@lumino/coreutils';
import { ISetupValues } from '../api.generated';
import { commandLabel } from '../labels';
import * as common from '../messages/common';
import * as messages from '../messages/setup';
import { ITpuModel } from '../tokens';
import { ISetupModel, SetupCommandIDs } from './tokens';

interface IContext {
  readonly commands: CommandRegistry;
  readonly services: ServiceManager.IManager;
  readonly model: ISetupModel;
  readonly nodes: ITpuModel;
  readonly trans: TranslationBundle;
  readonly showPanel: () => void;
}

/** Add all commands. */
export function addSetupCommands(context: IContext): void {
  const { commands, services, model, nodes, trans, showPanel } = context;
  const isTrial = (): boolean => nodes.status?.trial ?? false;
  const isEmulated = (): boolean => nodes.status?.emulated ?? false;
  commands.addCommand(SetupCommandIDs.open, {
    label: commandLabel(messages.setUp(trans), trans),
    describedBy: noArgs,
    execute: () => {
      showPanel();
      model.open();
    }
  });
  commands.addCommand(SetupCommandIDs.perform, {
    label: messages.performAction(trans),
    describedBy: {
      args: { type: 'object', properties: { key: text, values: { type: 'object' } } }
    },
    execute: async ({ key, values }) => {
      const step = model.setup?.steps.find(one => one.key === key);
      if (step?.action) {
        await model.perform(step, (values ?? {}) as ISetupValues);
      }
    }
  });
  commands.addCommand(SetupCommandIDs.startTrial, {
    label: commandLabel(messages.useEmulatedCloud(trans), trans),
    describedBy: noArgs,
    isEnabled: () => !isEmulated(),
    execute: () => {
      showPanel();
      return model.startTrial();
    }
  });
  commands.addCommand(SetupCommandIDs.endTrial, {
    label: commandLabel(messages.useOwnCloud(trans), trans),
    describedBy: noArgs,
    isEnabled: isTrial,
    execute: async () => {
      const kernels = emulatedKernels(services);
      if (kernels === 0 || (await mayShutDown(kernels, trans))) {
        await model.endTrial();
        // so that their notebooks show at once that they have no kernel
        await Promise.all([services.sessions.refreshRunning(), services.kernels.refreshRunning()]);
      }
    }
  });
  nodes.stateChanged.connect(() => {
    commands.notifyCommandChanged(SetupCommandIDs.startTrial);
    commands.notifyCommandChanged(SetupCommandIDs.endTrial);
  });
}

/** The number of kernels that run on emulated nodes. */
function emulatedKernels({ kernels, kernelspecs }: ServiceManager.IManager): number {
  const specs = kernelspecs.specs?.kernelspecs ?? {};
  return [...kernels.running()].filter(({ name }) => isEmulated(specs[name])).length;
}

function isEmulated(spec: KernelSpec.ISpecModel | undefined): boolean {
  const ours = spec?.metadata?.jupyter_tpu as { emulated?: boolean } | undefined;
  return ours?.emulated === true;
}

async function mayShutDown(kernels: number, trans: TranslationBundle): Promise<boolean> {
  const { button } = await showDialog({
    title: messages.backQuestion(trans),
    body: messages.kernelsShutDown(kernels, trans),
    buttons: [
      Dialog.cancelButton({ label: common.cancel(trans) }),
      Dialog.okButton({ label: messages.backToGoogleCloud(trans) })
    ]
  });
  return button.accept;
}

const text: JSONObject = { type: 'string' };
const noArgs = { args: { type: 'object', properties: {} } };
