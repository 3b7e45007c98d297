/** The commands on the chips of a node. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { IReleaseResult } from '../api.generated';
import { notifyOfChanges } from '../commands';
import { commandLabel } from '../labels';
import * as commandsMessages from '../messages/commands';
import * as messages from '../messages/load';
import { processName } from '../messages/load';
import { chooseNode } from '../nodedialogs';
import { asProblem, TpuRequestError } from '../request';
import { Locate, reportOnCard } from '../nodes/target';
import { INodeKey, ITpuModel } from '../tokens';
import { confirmRelease } from './dialogs';
import { IWorkerProcess, workerProcesses } from './processes';
import { ILoadModel, INodeLoad, LoadCommandIDs } from './tokens';

interface IContext {
  readonly commands: CommandRegistry;
  readonly model: ILoadModel;
  readonly nodes: ITpuModel;
  /** Finds the node of a command in a card's menu. */
  readonly locate: Locate;
  readonly trans: TranslationBundle;
}

type Args = ReadonlyPartialJSONObject;

/** A process by worker and pid; without them, all processes of this user. */
interface IProcessKey {
  readonly worker_id: number;
  readonly pid: number;
}

export function addLoadCommands({ commands, model, nodes, locate, trans }: IContext): void {
  const isPossible = ({ state }: { state: string }): boolean => state === 'READY';
  const isPossibleHere = (args: Args): boolean => {
    const key = locate(args);
    return isKey(key) && nodes.findNode(key)?.state === 'READY';
  };
  const isPossibleSomewhere = (): boolean => (nodes.list?.nodes ?? []).some(isPossible);
  notifyOfChanges({ app: { commands }, model: nodes }, LoadCommandIDs.release, isPossibleSomewhere);
  const label = commandsMessages.releaseChips(trans);
  const ownLabel = commandLabel(commandsMessages.withEllipsis(label, trans), trans);
  commands.addCommand(LoadCommandIDs.release, {
    label: args =>
      args.onCard === true
        ? commandsMessages.releaseChipsHere(trans)
        : isKey(args)
          ? label
          : ownLabel(args),
    icon: closeIcon,
    isEnabled: args => args.onCard === true || isKey(args) || isPossibleSomewhere(),
    isVisible: args => args.onCard !== true || isPossibleHere(args),
    describedBy: { args: { type: 'object', properties: PROPERTIES } },
    execute: async given => {
      const args = locate(given);
      const key = isKey(args) ? args : await chooseNode(nodes, isPossible, label, trans);
      if (!key) {
        return null;
      }
      const result = await reportOnCard(args, () => releaseChips(key, model.of(key), args, trans));
      if (result && args.onCard === true) {
        Notification.success(result);
      }
      return result;
    }
  });
}

const PROPERTIES = {
  zone: { type: 'string', description: 'Zone of the node' },
  node_id: { type: 'string', description: 'Name of the node' },
  processes: {
    type: 'array',
    description: 'Processes by worker_id and pid; all of this user if absent',
    items: { type: 'object' }
  }
};

/** Confirm, release, and return the result as text; null when the user cancels. */
async function releaseChips(
  { node_id }: INodeKey,
  load: INodeLoad,
  args: Args,
  trans: TranslationBundle
): Promise<string | null> {
  await load.refresh(); // the listed processes may have ended since
  const processes = chosen(load, args.processes as unknown as readonly IProcessKey[] | undefined);
  if (processes.length === 0) {
    throw refused(nothingToRelease(load, trans));
  }
  if (!(await confirmRelease(node_id, processes, trans))) {
    return null;
  }
  try {
    return describeResult(await Promise.all(processes.map(each => release(load, each))), trans);
  } finally {
    void load.refresh();
  }
}

function release(load: INodeLoad, { worker_id, process }: IWorkerProcess): Promise<IReleaseResult> {
  return load.release({ worker_id, pid: process.pid, force: !process.is_own_user });
}

function chosen({ part }: INodeLoad, keys: readonly IProcessKey[] | undefined): IWorkerProcess[] {
  const all = part.dated ? workerProcesses(part.dated.data) : [];
  return all.filter(({ worker_id, process }) =>
    keys
      ? keys.some(one => one.worker_id === worker_id && one.pid === process.pid)
      : process.is_own_user
  );
}

function nothingToRelease({ part }: INodeLoad, trans: TranslationBundle): string {
  return part.problem
    ? messages.processesUnknown(part.problem.message, trans)
    : messages.processGone(trans);
}

/** @throws TpuRequestError if some processes still use their chips. */
function describeResult(answers: readonly IReleaseResult[], trans: TranslationBundle): string {
  const texts = [...new Set(answers.map(({ message }) => message).filter(Boolean))].join(' ');
  const left = answers.flatMap(answer => answer.left);
  if (left.length > 0) {
    const names = left.map(process => `${processName(process, trans)} (${process.pid})`).join(', ');
    throw refused(texts || messages.stillUsedBy(names, trans));
  }
  return texts || messages.released(trans);
}

function refused(message: string): TpuRequestError {
  return new TpuRequestError(asProblem({ code: 'not_freed', message }));
}

function isKey(args: Args): args is Args & INodeKey {
  return typeof args.zone === 'string' && typeof args.node_id === 'string';
}
