/** Turns what is clicked in the sections into commands. */

import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { problemOf } from '../request';
import { CommandIDs, INodeKey } from '../tokens';
import { IGettingActs } from './choice/getting';
import { IMoneyActs } from './sections/section';
import { IMoneyModel, MoneyCommandIDs } from './tokens';

type Run = <T>(command: string, args?: object) => Promise<T>;

export function moneyActs(model: IMoneyModel, commands: CommandRegistry): IMoneyActs {
  const run = runIn(commands);
  return {
    onToggle: section => model.toggle(section),
    onKeep: (key, keep) => run(MoneyCommandIDs.keep, { ...place(key), ...keep }),
    onEnd: (key, action) =>
      run(action === 'stop' ? CommandIDs.stopNode : CommandIDs.deleteNode, place(key)),
    onSetBrakes: (key, change) => run(MoneyCommandIDs.setBrakes, { ...place(key), ...change }),
    onSetRecovery: (key, is_on) => run(MoneyCommandIDs.setRecovery, { ...place(key), is_on }),
    onSetBudget: (name, terms) => run(MoneyCommandIDs.setBudget, { name, terms }),
    onRemoveBudget: name => run(MoneyCommandIDs.removeBudget, { name }),
    onParseGrant: text => model.client.parseGrant(text),
    onSaveGrant: (name, terms) => run(MoneyCommandIDs.saveGrant, { name, terms }),
    onRemoveGrant: name => run(MoneyCommandIDs.removeGrant, { name }),
    onCancelSearch: search_id => run(MoneyCommandIDs.cancelSearch, { search_id }),
    onRemoveQueued: (zone, queued_id) => run(MoneyCommandIDs.removeQueued, { zone, queued_id }),
    onSweep: names => run(MoneyCommandIDs.sweep, { names: [...names] }),
    onPanic: () => run(MoneyCommandIDs.panic)
  };
}

export function gettingActs(model: IMoneyModel, commands: CommandRegistry): IGettingActs {
  const run = runIn(commands);
  const reveal = (): void => {
    if (!model.open.has('getting')) {
      model.toggle('getting');
    }
  };
  return {
    onSearch: terms => run<void>(MoneyCommandIDs.search, { terms }).then(reveal),
    onQueue: terms => run<void>(MoneyCommandIDs.queue, { terms }).then(reveal),
    onRecover: key =>
      void run(MoneyCommandIDs.setRecovery, { ...place(key), is_on: true }).catch(error =>
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

function place({ zone, node_id }: INodeKey): INodeKey {
  return { zone, node_id };
}
