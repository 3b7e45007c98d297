/** The nodes in JupyterLab's Running panel: what each costs, and a button that stops it. */

import { IRunningSessions } from '@jupyterlab/running';
import { TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';
import { INode } from '../api.generated';
import { billingOf, endsOfAll } from '../fleet';
import { stateKind } from '../format';
import { tpuIcon } from '../icons';
import { currentRate, endsText, stopAllConsequences } from '../messages/cleanup';
import { spendingUnknown } from '../messages/spend';
import { coveredByGrant } from '../messages/units';
import * as messages from '../messages/surfaces';
import { rateOf, shortPrice } from '../messages/units';
import { MoneyCommandIDs } from '../money/tokens';
import { CommandIDs, ITpuModel } from '../tokens';

type Run = (command: string, args?: ReadonlyJSONObject) => void;
type Nodes = Pick<ITpuModel, 'list' | 'refresh' | 'stateChanged'>;

export class RunningNodes implements IRunningSessions.IManager {
  constructor(
    private readonly _nodes: Nodes,
    private readonly _run: Run,
    private readonly _trans: TranslationBundle
  ) {
    this.name = messages.runningNodes(_trans);
    this.shutdownLabel = messages.stopNode(_trans);
    this.shutdownAllLabel = messages.stopAllNodes(_trans);
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownItemIcon = stopIcon;

  /** JupyterLab's question before it calls `shutdownAll`, with the text of this extension's own question. */
  get shutdownAllConfirmationText(): string {
    const { list } = this._nodes;
    const rate = list ? rateOf(billingOf(list), this._trans) : spendingUnknown(this._trans);
    return [
      ...endsText(endsOfAll(list), this._trans),
      stopAllConsequences(this._trans),
      currentRate(rate, this._trans)
    ].join(' ');
  }

  get runningChanged(): ISignal<unknown, unknown> {
    return this._nodes.stateChanged;
  }

  running(): IRunningSessions.IRunningItem[] {
    return (this._nodes.list?.nodes ?? []).filter(isRunning).map(node => this._item(node));
  }

  shutdownAll(): void {
    this._run(MoneyCommandIDs.stopAll, { isConfirmed: true });
  }

  refreshRunning(): void {
    void this._nodes.refresh().catch(() => undefined);
  }

  private _detail({ billing, covered, price, state }: INode): string {
    if (!billing) {
      return state;
    }
    return covered ? coveredByGrant(this._trans) : shortPrice(price, this._trans);
  }

  private _item(node: INode): IRunningSessions.IRunningItem {
    const { zone, node_id, accelerator_type, state } = node;
    const end = state === 'READY' ? CommandIDs.stopNode : CommandIDs.deleteNode;
    return {
      className: 'jp-tpu-RunningNode',
      icon: () => tpuIcon,
      label: () => node_id,
      labelTitle: () => messages.nodeTitle(accelerator_type, zone, state, this._trans),
      detail: () => this._detail(node),
      open: () => this._run(CommandIDs.openPanel, { zone, node_id }),
      shutdown: () => this._run(end, { zone, node_id })
    };
  }
}

function isRunning({ state, billing }: INode): boolean {
  const kind = stateKind(state);
  return billing || ((kind === 'ready' || kind === 'working') && state !== 'DELETING');
}

/** Return a function that runs a command and shows its errors as notifications. */
export function runner(commands: CommandRegistry, onError: (error: unknown) => void): Run {
  return (command, args = {}) => void commands.execute(command, args).catch(onError);
}
