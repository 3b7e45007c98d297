/** The commands about money. A refusal is thrown, so that it is shown where the action was started. */

import { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon, stopIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { INewBudget, INewGrant, INewQueued, INewSearch } from '../api.generated';
import { endsOfAll, isEnding } from '../fleet';
import { commandLabel } from '../labels';
import * as messages from '../messages/commands';
import * as spendMessages from '../messages/spend';
import { formatRate } from '../messages/spend';
import { canKeepRunning } from '../autostop/rules';
import { Locate, reportOnCard } from '../nodes/target';
import { endsAtCap } from '../spend/rates';
import { INodeKey, ITpuModel } from '../tokens';
import { budgetTermsOf } from './budgetterms';
import {
  askForAmount,
  confirmCleanup,
  confirmEnds,
  confirmRemoval,
  confirmStopAll
} from './dialogs';
import { IMoneyModel, MoneyCommandIDs, SectionName } from './tokens';

type Args = ReadonlyPartialJSONObject;

interface ICommandContext {
  readonly commands: CommandRegistry;
  readonly model: IMoneyModel;
  readonly nodes: Pick<ITpuModel, 'status' | 'list' | 'refresh' | 'attempt' | 'dismissRefusals'>;
  readonly showPanel: () => void;
  /** Finds the node of a command in a card's menu. */
  readonly locate: Locate;
  readonly trans: TranslationBundle;
}

/** Add all commands about money. */
export function addMoneyCommands(context: ICommandContext): void {
  addNodeCommands(context);
  addBudgetCommands(context);
  addCapacityCommands(context);
  addCleanupCommands(context);
  addSectionCommand(context);
}

function addNodeCommands(context: ICommandContext): void {
  const { trans, model, locate } = context;
  const { client } = model;
  addCommand(context, MoneyCommandIDs.keepRunning, {
    label: ({ onCard }) =>
      onCard === true ? messages.keepRunningOneHour(trans) : messages.keepRunning(trans),
    args: { ...key, for_s: number, until: number, while_busy: flag, onCard: flag },
    isVisible: args => args.onCard !== true || canPostpone(context, locate(args)),
    act: args => client.keepRunning(keyOf(locate(args)), restOf(args))
  });
  addCommand(context, MoneyCommandIDs.setAutostop, {
    label: messages.setAutostop(trans),
    args: {
      ...key,
      idle_after_s: number,
      unattended_after_s: number,
      session_s: number,
      action: text
    },
    act: args => client.setAutostop(keyOf(args), restOf(args))
  });
  addCommand(context, MoneyCommandIDs.setRecovery, {
    label: messages.setRecreation(trans),
    args: { ...key, is_on: flag },
    act: args => client.setRecovery(keyOf(args), { is_on: args.is_on === true })
  });
}

/** Whether auto-stop ends the node at a time that can be postponed, and nothing else ends it earlier. */
function canPostpone({ model, nodes }: ICommandContext, { zone, node_id }: Args): boolean {
  const autostop = model.parts.autostops.dated?.data.nodes.find(
    one => one.zone === zone && one.node_id === node_id
  );
  return (
    autostop !== undefined &&
    autostop.ends_at !== null &&
    canKeepRunning(autostop) &&
    !isEnding(nodes.list, autostop.name)
  );
}

function addBudgetCommands(context: ICommandContext): void {
  const { trans, model, nodes } = context;
  const { client } = model;
  const change = async (sent: Promise<void>): Promise<void> => {
    await sent;
    nodes.dismissRefusals('budget_exceeded');
  };
  addCommand(context, MoneyCommandIDs.setBudget, {
    label: messages.setBudget(trans),
    args: { name: text, terms: record },
    act: ({ name, terms }) =>
      change(client.setBudget(name as string, terms as unknown as INewBudget))
  });
  context.commands.addCommand(MoneyCommandIDs.raiseBudget, {
    label: commandLabel(messages.raiseBudget(trans), trans),
    describedBy: { args: { type: 'object', properties: { name: text } } },
    execute: ({ name }) => raiseBudget(context, name as string)
  });
  addCommand(context, MoneyCommandIDs.removeBudget, {
    label: messages.removeBudget(trans),
    args: { name: text },
    act: ({ name }) => change(client.removeBudget(name as string))
  });
  addCommand(context, MoneyCommandIDs.saveGrant, {
    label: messages.saveGrant(trans),
    args: { name: text, terms: record },
    act: ({ name, terms }) => client.saveGrant(name as string, terms as unknown as INewGrant)
  });
  addCommand(context, MoneyCommandIDs.removeGrant, {
    label: messages.removeGrant(trans),
    args: { name: text },
    act: ({ name }) => client.removeGrant(name as string)
  });
}

/**
 * Let the user enter a new amount for a budget; a budget that cannot be read is shown in its section.
 *
 *  @returns whether the budget has room now
 */
async function raiseBudget(context: ICommandContext, name: string): Promise<boolean> {
  const { commands, model, nodes, trans } = context;
  await model.refresh();
  const spend = model.parts.spend.dated?.data;
  const budget = spend?.budgets.find(one => one.name === name);
  const terms = budget && budgetTermsOf(budget);
  if (!terms) {
    await commands.execute(MoneyCommandIDs.showSection, { section: 'spend' });
    return false;
  }
  const { used, unwatched } = { used: budget.used ?? 0, unwatched: budget.unwatched ?? 0 };
  const amount = await askForAmount(name, terms, used, trans);
  if (amount === null) {
    return false;
  }
  const raised = { ...terms, amount };
  const ends = spend && used >= amount ? endsAtCap(raised, spend, nodes.list?.nodes ?? []) : null;
  const usedBefore = { least: used - unwatched, most: used };
  if (!ends || (await confirmEnds(name, usedBefore, amount, ends, trans))) {
    const json = raised as unknown as JSONObject;
    await commands.execute(MoneyCommandIDs.setBudget, { name, terms: json });
    return used < amount;
  }
  return false;
}

function addSectionCommand({ commands, model, trans, showPanel }: ICommandContext): void {
  commands.addCommand(MoneyCommandIDs.showSection, {
    label: commandLabel(messages.showSection(trans), trans),
    describedBy: { args: { type: 'object', properties: { section: text, zone: text } } },
    execute: ({ section, zone }) => {
      showPanel();
      if (typeof zone === 'string' && zone) {
        model.chooseZone(zone);
      }
      if (SECTIONS.has(section as SectionName)) {
        model.reveal(section as SectionName);
      }
    }
  });
}

const SECTIONS: ReadonlySet<SectionName> = new Set<SectionName>([
  'spend',
  'grants',
  'quota',
  'capacity',
  'cleanup',
  'audit'
]);

function addCapacityCommands(context: ICommandContext): void {
  const { trans, model, nodes } = context;
  const { client } = model;
  addCommand(context, MoneyCommandIDs.search, {
    label: messages.search(trans),
    args: { terms: record },
    act: args => {
      const terms = args.terms as unknown as INewSearch;
      return nodes.attempt(terms.node_id, () => client.search(terms));
    }
  });
  addCommand(context, MoneyCommandIDs.cancelSearch, {
    label: messages.cancelSearch(trans),
    args: { search_id: text },
    act: ({ search_id }) => client.cancelSearch(search_id as string)
  });
  addCommand(context, MoneyCommandIDs.queue, {
    label: messages.queue(trans),
    args: { terms: record },
    act: args => {
      const terms = args.terms as unknown as INewQueued;
      return nodes.attempt(terms.node_id, () => client.queue(terms));
    }
  });
  addCommand(context, MoneyCommandIDs.removeQueued, {
    label: messages.removeQueued(trans),
    args: { zone: text, queued_id: text },
    act: async args => {
      const { zone, queued_id } = args as { zone: string; queued_id: string };
      const items = model.parts.queue.dated?.data.items ?? [];
      const known = items.find(one => one.zone === zone && one.queued_id === queued_id);
      return (
        (await confirmRemoval(queued_id, known, trans)) && client.removeQueued(zone, queued_id)
      );
    }
  });
}

function addCleanupCommands(context: ICommandContext): void {
  const { trans, model, nodes } = context;
  const { client } = model;
  const emulated = (): boolean => nodes.status?.emulated ?? false;
  addCommand(context, MoneyCommandIDs.cleanup, {
    label: messages.cleanUp(trans),
    args: { names: { type: 'array', items: text } },
    act: async args => {
      const names = args.names as string[];
      const known = model.parts.cleanup.dated?.data.items ?? [];
      const isSure = await confirmCleanup(names, known, { emulated: emulated(), trans });
      return isSure ? client.cleanup(names) : null;
    }
  });
  addCommand(context, MoneyCommandIDs.stopAll, {
    label: messages.stopAll(trans),
    icon: stopIcon,
    args: { isConfirmed: flag },
    act: async ({ isConfirmed }) => {
      if (isConfirmed === true) {
        return client.stopAll();
      }
      const spend = model.parts.spend.dated?.data;
      const rate = spend ? formatRate(spend, trans) : spendMessages.spendingUnknown(trans);
      const ends = endsOfAll(nodes.list);
      return (await confirmStopAll(rate, ends, { emulated: emulated(), trans }))
        ? client.stopAll()
        : null;
    }
  });
}

interface ICommand {
  label: string | ((args: Args) => string);
  icon?: LabIcon;
  isVisible?: (args: Args) => boolean;
  args: JSONObject;
  act: (args: Args) => Promise<unknown>;
}

/** Add a command after which all parts are requested again. */
function addCommand(context: ICommandContext, id: string, command: ICommand): void {
  const { label, icon, isVisible, args, act } = command;
  const { commands, trans } = context;
  commands.addCommand(id, {
    label: typeof label === 'string' ? commandLabel(label, trans) : label,
    icon,
    isVisible,
    describedBy: { args: { type: 'object', properties: args } },
    execute: async given => {
      const answer = await reportOnCard(given, () => act(given));
      await refreshAll(context);
      return answer;
    }
  });
}

async function refreshAll({ model, nodes }: ICommandContext): Promise<void> {
  await Promise.allSettled([model.refresh(), nodes.refresh()]);
}

function keyOf({ zone, node_id }: Args): INodeKey {
  return { zone: zone as string, node_id: node_id as string };
}

/** The arguments of a command on a node, without the node's key. */
function restOf(args: Args): Args {
  return Object.fromEntries(Object.entries(args).filter(([name]) => !KEY_ARGS.has(name)));
}

const KEY_ARGS = new Set(['zone', 'node_id', 'onCard']);
const text = { type: 'string' };
const number = { type: 'number' };
const flag = { type: 'boolean' };
const record = { type: 'object' };
const key = {
  zone: { type: 'string', description: 'Zone of the node' },
  node_id: { type: 'string', description: 'Name of the node' }
};
