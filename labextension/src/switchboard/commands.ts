/** Every act of the switchboard as a command; added only where the cloud is emulated. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import * as messages from '../messages/commands';
import * as common from '../messages/common';
import * as simulatorMessages from '../messages/simulator';
import { IAsk, SwitchboardModel } from './model';
import { SwitchboardCommandIDs } from './tokens';

interface IAct {
  readonly id: string;
  readonly label: string;
  readonly args: JSONObject;
  /** What the control API is asked for. */
  readonly asks: (args: JSONObject) => readonly IAsk[];
}

/** Add all but the one that opens the page. */
export function addSwitchboardCommands(
  commands: CommandRegistry,
  model: SwitchboardModel,
  trans: TranslationBundle
): void {
  for (const { id, label, args, asks } of actsOf(trans)) {
    commands.addCommand(id, {
      label,
      describedBy: { args: { type: 'object', properties: args } },
      execute: given => model.ask(...asks(given as JSONObject))
    });
  }
  commands.addCommand(SwitchboardCommandIDs.reset, {
    label: messages.resetCloud(trans),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      if (await confirmReset(trans)) {
        await model.ask(post('reset', {}));
      }
    }
  });
}

function actsOf(trans: TranslationBundle): readonly IAct[] {
  return [
    {
      id: SwitchboardCommandIDs.setClock,
      label: messages.setClock(trans),
      args: {
        scale: { type: 'number', description: 'Virtual seconds per real second' },
        paused: { type: 'boolean', description: 'Whether time stands still' },
        advance_s: { type: 'number', description: 'Virtual seconds to jump ahead' }
      },
      asks: args => [post('clock', args)]
    },
    {
      id: SwitchboardCommandIDs.preempt,
      label: messages.preemptNodes(trans),
      args: { nodes: { type: 'array', items: { type: 'string' }, description: 'Full names' } },
      asks: args => (args.nodes as string[]).map(node => post('preempt', { node }))
    },
    {
      id: SwitchboardCommandIDs.maintain,
      label: messages.announceMaintenance(trans),
      args: {
        node: NODE,
        in_s: { type: 'number', description: 'Virtual seconds until it begins' }
      },
      asks: args => [post('maintenance', args)]
    },
    {
      id: SwitchboardCommandIDs.faultLink,
      label: messages.disruptConnection(trans),
      args: {
        node: NODE,
        worker_id: { type: 'integer' },
        faults: { type: 'array', items: { type: 'object' }, description: 'Verbs and their fields' }
      },
      asks: ({ node, worker_id, faults }) =>
        (faults as JSONObject[]).map(fault => post('links', { node, worker_id, ...fault }))
    },
    ...projectActs(trans),
    ...faultActs(trans)
  ];
}

function projectActs(trans: TranslationBundle): readonly IAct[] {
  return [
    {
      id: SwitchboardCommandIDs.setCapacity,
      label: messages.setCapacity(trans),
      args: {
        zone: { type: 'string' },
        family: { type: 'string', description: 'Generation, such as v5e' },
        chips: { type: ['integer', 'null'], description: 'Chips in all; null is without limit' }
      },
      asks: args => [post('capacity', args)]
    },
    {
      id: SwitchboardCommandIDs.setQuota,
      label: messages.setQuota(trans),
      args: {
        quota_id: { type: 'string' },
        zone: { type: 'string', description: 'For a quota of a zone' },
        region: { type: 'string', description: 'For a quota of a region' },
        limit: { type: ['integer', 'null'], description: 'Null is without limit' }
      },
      asks: args => [post('quotas', args)]
    },
    {
      id: SwitchboardCommandIDs.setProject,
      label: messages.setProject(trans),
      args: {
        api_enabled: { type: 'boolean' },
        denied_permissions: { type: 'array', items: { type: 'string' } },
        denied_locations: { type: 'array', items: { type: 'string' } },
        allowlist: { type: ['array', 'null'], items: { type: 'string' } },
        addresses_per_region: { type: ['integer', 'null'] },
        creates_per_minute: { type: ['integer', 'null'] }
      },
      asks: args => [post('project', args)]
    }
  ];
}

function faultActs(trans: TranslationBundle): readonly IAct[] {
  return [
    {
      id: SwitchboardCommandIDs.addFault,
      label: messages.addFault(trans),
      args: {
        method: { type: 'string', description: 'Such as CreateNode; * is any' },
        kind: { type: 'string' },
        times: { type: 'integer' }
      },
      asks: args => [post('faults', args)]
    },
    {
      id: SwitchboardCommandIDs.removeFault,
      label: messages.removeFault(trans),
      args: { id: { type: 'integer' } },
      asks: ({ id }) => [{ method: 'DELETE', part: `faults?id=${Number(id)}` }]
    },
    {
      id: SwitchboardCommandIDs.clearFaults,
      label: messages.clearFaults(trans),
      args: {},
      asks: () => [{ method: 'DELETE', part: 'faults' }]
    }
  ];
}

const NODE: JSONObject = { type: 'string', description: 'Full name of the node' };

function post(part: string, body: ReadonlyPartialJSONObject): IAsk {
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
