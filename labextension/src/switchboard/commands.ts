/** Every act of the switchboard as a command; added only where the cloud is emulated. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
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
    label: trans.__('Reset the Emulated Cloud…'),
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
      label: trans.__('Set the Clock of the Emulated Cloud'),
      args: {
        scale: { type: 'number', description: 'Virtual seconds per real second' },
        paused: { type: 'boolean', description: 'Whether time stands still' },
        advance_s: { type: 'number', description: 'Virtual seconds to jump ahead' }
      },
      asks: args => [post('clock', args)]
    },
    {
      id: SwitchboardCommandIDs.preempt,
      label: trans.__('Pre-empt Nodes of the Emulated Cloud'),
      args: { nodes: { type: 'array', items: { type: 'string' }, description: 'Full names' } },
      asks: args => (args.nodes as string[]).map(node => post('preempt', { node }))
    },
    {
      id: SwitchboardCommandIDs.maintain,
      label: trans.__('Announce Maintenance of an Emulated Node'),
      args: {
        node: NODE,
        in_s: { type: 'number', description: 'Virtual seconds until it begins' }
      },
      asks: args => [post('maintenance', args)]
    },
    {
      id: SwitchboardCommandIDs.faultLink,
      label: trans.__('Break or Fix the Link to an Emulated Worker'),
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
      label: trans.__('Set the Capacity of an Emulated Zone'),
      args: {
        zone: { type: 'string' },
        family: { type: 'string', description: 'Generation, such as v5e' },
        chips: { type: ['integer', 'null'], description: 'Chips in all; null is without limit' }
      },
      asks: args => [post('capacity', args)]
    },
    {
      id: SwitchboardCommandIDs.setQuota,
      label: trans.__('Set a Quota of the Emulated Project'),
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
      label: trans.__('Set What the Emulated Project May Do'),
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
      label: trans.__('Script a Fault of the Emulated Cloud'),
      args: {
        method: { type: 'string', description: 'Such as CreateNode; * is any' },
        kind: { type: 'string' },
        times: { type: 'integer' }
      },
      asks: args => [post('faults', args)]
    },
    {
      id: SwitchboardCommandIDs.removeFault,
      label: trans.__('Forget a Scripted Fault of the Emulated Cloud'),
      args: { id: { type: 'integer' } },
      asks: ({ id }) => [{ method: 'DELETE', part: `faults?id=${Number(id)}` }]
    },
    {
      id: SwitchboardCommandIDs.clearFaults,
      label: trans.__('Forget the Scripted Faults of the Emulated Cloud'),
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
    title: trans.__('Reset the emulated cloud?'),
    body: trans.__(
      'All its nodes, their disks and every file on them are lost, and their kernels end. Faults, limits, quotas and the ledger are as at first.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Reset') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}
