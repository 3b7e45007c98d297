/** Callbacks of the sections; each runs a command. */

import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { ICreateActions } from '../create/draft';
import { problemOf } from '../request';
import { CommandIDs, INodeKey } from '../tokens';
import { IMoneyActions } from './section';
import { IMoneyModel, MoneyCommandIDs } from './tokens';

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
    onCancelSearch: search_id => run(MoneyCommandIDs.cancelSearch, { search_id }),
    onRemoveQueued: (zone, queued_id) => run(MoneyCommandIDs.removeQueued, { zone, queued_id }),
    onCleanUp: names => run(MoneyCommandIDs.cleanup, { names: [...names] }),
    onStopAll: () => run(MoneyCommandIDs.stopAll)
  };
}

export function createActions(model: IMoneyModel, commands: CommandRegistry): ICreateActions {
  const run = runIn(commands);
  const reveal = (): void => {
    if (!model.open.has('capacity')) {
      model.toggle('capacity');
    }
  };
  return {
    onSearch: terms => run<void>(MoneyCommandIDs.search, { terms }).then(reveal),
    onQueue: terms => run<void>(MoneyCommandIDs.queue, { terms }).then(reveal),
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
