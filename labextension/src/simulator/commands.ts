/** The commands of the failure simulator; added only where the cloud is emulated. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { undoIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as common from '../messages/common';
import * as simulatorMessages from '../messages/simulator';
import { IControlRequest, SimulatorModel } from './model';
import { SimulatorCommandIDs } from './tokens';

interface ICommand {
  readonly id: string;
  readonly label: string;
  readonly args: JSONObject;
  /** The requests to the control API. */
  readonly requests: (args: JSONObject) => readonly IControlRequest[];
}

/** Add all commands except the one that opens the page. */
export function addSimulatorCommands(
  commands: CommandRegistry,
  model: SimulatorModel,
  trans: TranslationBundle
): void {
  for (const { id, label, args, requests } of commandsOf(trans)) {
    commands.addCommand(id, {
      label: commandLabel(label, trans),
      describedBy: { args: { type: 'object', properties: args } },
      execute: given => model.send(...requests(given as JSONObject))
    });
  }
  commands.addCommand(SimulatorCommandIDs.reset, {
    label: commandLabel(messages.resetCloud(trans), trans),
    icon: undoIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      if (await confirmReset(trans)) {
        await model.send(post('reset', {}));
      }
    }
  });
}

function commandsOf(trans: TranslationBundle): readonly ICommand[] {
  return [
    {
      id: SimulatorCommandIDs.setClock,
      label: messages.setClock(trans),
      args: {
        scale: { type: 'number', description: 'Virtual seconds per real second' },
        paused: { type: 'boolean', description: 'Whether the clock is paused' },
        advance_s: { type: 'number', description: 'Virtual seconds to jump ahead' }
      },
      requests: args => [post('clock', args)]
    },
    {
      id: SimulatorCommandIDs.preempt,
      label: messages.preemptNodes(trans),
      args: { nodes: { type: 'array', items: { type: 'string' }, description: 'Full names' } },
      requests: args => (args.nodes as string[]).map(node => post('preempt', { node }))
    },
    {
      id: SimulatorCommandIDs.maintain,
      label: messages.announceMaintenance(trans),
      args: {
        node: NODE,
        in_s: { type: 'number', description: 'Virtual seconds until it starts' }
      },
      requests: args => [post('maintenance', args)]
    },
    {
      id: SimulatorCommandIDs.faultLink,
      label: messages.disruptConnection(trans),
      args: {
        node: NODE,
        worker_id: { type: 'integer' },
        faults: {
          type: 'array',
          items: { type: 'object' },
          description: 'Faults: verbs and their fields'
        }
      },
      requests: ({ node, worker_id, faults }) =>
        (faults as JSONObject[]).map(fault => post('links', { node, worker_id, ...fault }))
    },
    {
      id: SimulatorCommandIDs.faultWorker,
      label: messages.breakWorker(trans),
      args: {
        node: NODE,
        worker_id: { type: 'integer' },
        action: { type: 'string', enum: ['kill', 'slow', 'freeze', 'cut', 'clear'] },
        factor: { type: 'integer', description: 'slow: how many times as long everything takes' },
        other_worker_id: { type: 'integer', description: 'cut: the worker that it cannot reach' }
      },
      requests: args => [post('workers', args)]
    },
    ...projectCommands(trans),
    ...faultCommands(trans)
  ];
}

function projectCommands(trans: TranslationBundle): readonly ICommand[] {
  return [
    {
      id: SimulatorCommandIDs.setCapacity,
      label: messages.setCapacity(trans),
      args: {
        zone: { type: 'string' },
        family: { type: 'string', description: 'Generation, such as v5e' },
        chips: { type: ['integer', 'null'], description: 'Total chips; null is unlimited' }
      },
      requests: args => [post('capacity', args)]
    },
    {
      id: SimulatorCommandIDs.setQuota,
      label: messages.setQuota(trans),
      args: {
        quota_id: { type: 'string' },
        zone: { type: 'string', description: 'Zone, for a quota per zone' },
        region: { type: 'string', description: 'Region, for a quota per region' },
        limit: { type: ['integer', 'null'], description: 'Null is unlimited' }
      },
      requests: args => [post('quotas', args)]
    },
    {
      id: SimulatorCommandIDs.setProject,
      label: messages.setProject(trans),
      args: {
        api_enabled: { type: 'boolean' },
        denied_permissions: { type: 'array', items: { type: 'string' } },
        denied_locations: { type: 'array', items: { type: 'string' } },
        allowlist: { type: ['array', 'null'], items: { type: 'string' } },
        addresses_per_region: { type: ['integer', 'null'] },
        creates_per_minute: { type: ['integer', 'null'] }
      },
      requests: args => [post('project', args)]
    }
  ];
}

function faultCommands(trans: TranslationBundle): readonly ICommand[] {
  return [
    {
      id: SimulatorCommandIDs.addFault,
      label: messages.addFault(trans),
      args: {
        method: { type: 'string', description: 'For example CreateNode; * is any' },
        kind: { type: 'string' },
        times: { type: 'integer' }
      },
      requests: args => [post('faults', args)]
    },
    {
      id: SimulatorCommandIDs.removeFault,
      label: messages.removeFault(trans),
      args: { id: { type: 'integer' } },
      requests: ({ id }) => [{ method: 'DELETE', part: `faults?id=${Number(id)}` }]
    },
    {
      id: SimulatorCommandIDs.clearFaults,
      label: messages.clearFaults(trans),
      args: {},
      requests: () => [{ method: 'DELETE', part: 'faults' }]
    }
  ];
}

const NODE: JSONObject = { type: 'string', description: 'Full name of the node' };

function post(part: string, body: ReadonlyPartialJSONObject): IControlRequest {
  return { method: 'POST', part, body: body as JSONObject };
}

async function confirmReset(trans: TranslationBundle): Promise<boolean> {
  const result = await showDialog({
    title: simulatorMessages.resetQuestion(trans),
    body: simulatorMessages.resetConsequences(trans),
    buttons: [
      Dialog.cancelButton({ label: common.cancel(trans) }),
      Dialog.warnButton({ label: simulatorMessages.reset(trans) })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}
