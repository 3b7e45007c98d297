/** Notifications with buttons: a node is ready, stops soon, or was pre-empted. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { INode, INodeAutostop } from '../api.generated';
import { canKeepRunning } from '../autostop/rules';
import { hasKernel } from '../fleet';
import { stateKind } from '../format';
import * as autostopMessages from '../messages/autostop';
import * as messages from '../messages/surfaces';
import { formatDuration } from '../messages/units';
import { serverNow } from '../money/model';
import { IMoneyModel, MoneyCommandIDs } from '../money/tokens';
import { ITpuSettings } from '../settings/settings';
import { CommandIDs, INodeKey, ITpuModel } from '../tokens';

const READY_MS = 20_000;
const HOUR_S = 3600;

interface IContext {
  readonly nodes: Pick<ITpuModel, 'list' | 'isWatched'>;
  readonly money: Pick<IMoneyModel, 'parts'> | null;
  readonly settings: ITpuSettings;
  readonly run: (command: string, args: INodeKey & { readonly for_s?: number }) => void;
  /** Whether an open notebook belongs to the node; that notebook then shows how its node ends. */
  readonly isInNotebook: (nodeName: string) => boolean;
  /** Whether a notebook opens automatically on the READY node. */
  readonly opensItself: (node: INode) => boolean;
  readonly trans: TranslationBundle;
}

/** Shows one notification for each node and event, and withdraws it once it is obsolete. */
export class NodeNotices {
  constructor(private readonly _context: IContext) {}

  /** Compare the last list of nodes with the one before. */
  readonly onNodes = (): void => {
    const { list } = this._context.nodes;
    if (!list || list.as_of === null) {
      return;
    }
    for (const node of list.nodes) {
      // READY counts once a notebook can run there
      const state = node.state === 'READY' && !hasKernel(node) ? 'CREATING' : node.state;
      const before = this._states.get(node.name);
      this._states.set(node.name, state);
      if (state === 'READY' && (before === undefined ? this._hasList : before !== 'READY')) {
        this._onReady(node);
      } else if (stateKind(state) === 'lost' && before === 'READY') {
        this._onPreempted(node);
      }
      this._withdrawUnlessSo('ready', node.name, state === 'READY' && !this._isShown(node));
      this._withdrawUnlessSo('lost', node.name, stateKind(state) === 'lost');
    }
    const left = new Set(list.nodes.map(({ name }) => name));
    [...this._states.keys()].filter(name => !left.has(name)).forEach(name => this._forget(name));
    this._hasList = true;
  };

  /** Notify of nodes that stop soon. */
  readonly onMoney = (): void => {
    const autostops = this._context.money?.parts.autostops.dated;
    if (!autostops) {
      return;
    }
    const now_s = serverNow(autostops, Date.now());
    for (const one of autostops.data.nodes) {
      const isEnding = one.is_warning && one.ends_at !== null;
      if (isEnding && !this._ending.has(one.name) && !this._context.isInNotebook(one.name)) {
        this._onEnding(one, (one.ends_at ?? now_s) - now_s);
      }
      if (!isEnding) {
        this._ending.delete(one.name);
      }
      this._withdrawUnlessSo('ending', one.name, isEnding);
    }
  };

  /** Withdraw the notification of a node on which a notebook was opened. */
  readonly onSessions = (): void => {
    const opened = this._context.nodes.list?.nodes.filter(node => this._isOpen(node)) ?? [];
    opened.forEach(({ name }) => this._withdrawUnlessSo('ready', name, false));
  };

  private _onReady(node: INode): void {
    const { settings, run, trans } = this._context;
    if (!settings.values.notifyReady || !node.managed || this._isShown(node)) {
      return;
    }
    const key = pick(node);
    const id = Notification.success(messages.nodeReady(node.node_id, trans), {
      autoClose: READY_MS,
      actions: [
        {
          label: messages.openNotebook(trans),
          displayType: 'accent',
          callback: () => run(CommandIDs.openNotebook, key)
        }
      ]
    });
    this._shown.set(`ready ${node.name}`, id);
  }

  private _onPreempted(node: INode): void {
    const { settings, run, trans } = this._context;
    if (!settings.values.notifyEnd || this._context.isInNotebook(node.name)) {
      return;
    }
    const id = Notification.warning(messages.preempted(node.node_id, trans), {
      autoClose: false,
      actions: [
        {
          label: messages.showPanel(trans),
          displayType: 'accent',
          callback: () => run(CommandIDs.openPanel, pick(node))
        }
      ]
    });
    this._shown.set(`lost ${node.name}`, id);
  }

  private _onEnding(autostop: INodeAutostop, left_s: number): void {
    const { settings, run, trans } = this._context;
    this._ending.add(autostop.name);
    if (!settings.values.notifyEnd) {
      return;
    }
    const { node_id, ends_why, action } = autostop;
    const text = action === 'stop' ? messages.endsSoon : messages.deletedSoon;
    const why = autostopMessages.autostopReason(ends_why, trans);
    const keep = {
      label: autostopMessages.keepOneHour(trans),
      displayType: 'accent' as const,
      callback: () => run(MoneyCommandIDs.keepRunning, { ...pick(autostop), for_s: HOUR_S })
    };
    const show = {
      label: messages.showPanel(trans),
      callback: () => run(CommandIDs.openPanel, pick(autostop))
    };
    const id = Notification.warning(text(node_id, formatDuration(left_s, trans), why, trans), {
      autoClose: false,
      actions: canKeepRunning(autostop) ? [keep, show] : [show]
    });
    this._shown.set(`ending ${autostop.name}`, id);
  }

  /** Whether the node's card in the panel, or a notebook on it, already shows the news. */
  private _isShown(node: INode): boolean {
    return this._context.nodes.isWatched || this._isOpen(node);
  }

  private _isOpen(node: INode): boolean {
    const { isInNotebook, opensItself } = this._context;
    return isInNotebook(node.name) || opensItself(node);
  }

  private _withdrawUnlessSo(kind: string, name: string, isSo: boolean): void {
    const key = `${kind} ${name}`;
    const id = this._shown.get(key);
    if (id !== undefined && !isSo) {
      this._shown.delete(key);
      Notification.dismiss(id);
    }
  }

  private _forget(name: string): void {
    this._states.delete(name);
    this._ending.delete(name);
    ['ready', 'lost', 'ending'].forEach(kind => this._withdrawUnlessSo(kind, name, false));
  }

  /** The states of nodes by full name; READY only once a notebook can run there. */
  private readonly _states = new Map<string, string>();
  private readonly _ending = new Set<string>();
  /** Notifications by kind and node. */
  private readonly _shown = new Map<string, string>();
  /** Whether a list was received before: nodes of the first list are not news. */
  private _hasList = false;
}

function pick({ zone, node_id }: INodeKey): INodeKey {
  return { zone, node_id };
}
