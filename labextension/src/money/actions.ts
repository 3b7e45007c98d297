/** Callbacks of the sections; each runs a command. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { ICreateActions } from '../create/draft';
import { queuedNotice } from '../messages/capacity';
import { problemOf } from '../request';
import { CommandIDs, INodeKey } from '../tokens';
import { waitingIn } from './parts';
import { IMoneyActions } from './section';
import { IMoneyModel, MoneyCommandIDs } from './tokens';

/** How long the notification is shown: enough to read one line. */
const QUEUED_MS = 8_000;

type Run = <T>(command: string, args?: object) => Promise<T>;

export function moneyActions(model: IMoneyModel, commands: CommandRegistry): IMoneyActions {
  const run = runIn(commands);
  return {
    onToggle: section => model.toggle(section),
    onKeepRunning: (key, request) =>
      run(MoneyCommandIDs.keepRunning, { ...keyOnly(key), ...request }),
    onEnd: (key, action) =>
      run(action === 'stop' ? CommandIDs.stopNode : CommandIDs.deleteNode, keyOnly(key)),
    onSetAutostop: (key, change) =>
      run(MoneyCommandIDs.setAutostop, { ...keyOnly(key), ...change }),
    onSetRecovery: (key, is_on) => run(MoneyCommandIDs.setRecovery, { ...keyOnly(key), is_on }),
    onSetBudget: (name, terms) => run(MoneyCommandIDs.setBudget, { name, terms }),
    onRemoveBudget: name => run(MoneyCommandIDs.removeBudget, { name }),
    onParseGrant: text => model.client.parseGrant(text),
    onSaveGrant: (name, terms) => run(MoneyCommandIDs.saveGrant, { name, terms }),
    onRemoveGrant: name => run(MoneyCommandIDs.removeGrant, { name }),
    onOpenForm: () => void commands.execute(CommandIDs.openForm),
    onCancelSearch: search_id => run(MoneyCommandIDs.cancelSearch, { search_id }),
    onRemoveQueued: (zone, queued_id) => run(MoneyCommandIDs.removeQueued, { zone, queued_id }),
    onCleanUp: names => run(MoneyCommandIDs.cleanup, { names: [...names] }),
    onStopAll: () => run(MoneyCommandIDs.stopAll)
  };
}

export function createActions(
  model: IMoneyModel,
  commands: CommandRegistry,
  trans: TranslationBundle
): ICreateActions {
  const run = runIn(commands);
  return {
    onSearch: async terms => {
      await run<void>(MoneyCommandIDs.search, { terms });
      model.reveal('capacity');
    },
    onQueue: async terms => {
      await run<void>(MoneyCommandIDs.queue, { terms });
      model.reveal('capacity');
      Notification.success(queuedNotice(terms, trans), { autoClose: QUEUED_MS });
    },
    queued: () => {
      const queue = model.parts.queue.dated?.data;
      const waiting = queue ? waitingIn(queue) : [];
      return waiting.flatMap(({ zone, node_ids }) => node_ids.map(node_id => ({ zone, node_id })));
    },
    onRecover: key =>
      void run(MoneyCommandIDs.setRecovery, { ...keyOnly(key), is_on: true }).catch(error =>
        Notification.error(problemOf(error).message, { autoClose: false })
      ),
    coverage: choice => {
      model.chooseZone(choice.zone);
      return model.client.coverage(choice);
    },
    quotaAfter: choice => model.client.quotaAfter(choice)
  };
}

function runIn(commands: CommandRegistry): Run {
  return <T>(command: string, args: object = {}) =>
    commands.execute(command, args as ReadonlyPartialJSONObject) as Promise<T>;
}

function keyOnly({ zone, node_id }: INodeKey): INodeKey {
  return { zone, node_id };
}
