/** The panel as a widget: shows the model, turns clicks into commands. */

import { ITranslator } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Message } from '@lumino/messaging';
import React from 'react';
import { activityPlot } from './autostop/activityplot';
import { chipUseSummary } from './autostop/chipuse';
import { IPanelActions, IPanelState, Panel } from './components/panel';
import { ErrorActions, ErrorActionsContext } from './erroractions';
import { tpuIcon } from './icons';
import { plot } from './load/plot';
import { loadActions, LoadRenderer, loadRenderer } from './load/renderer';
import { ILoadModel } from './load/tokens';
import * as common from './messages/common';
import { createActions, moneyActions } from './money/actions';
import { IMoneyRenderers, moneyRenderers } from './money/renderers';
import { IMoneyModel } from './money/tokens';
import { problemOf } from './request';
import { SimulatorCommandIDs } from './simulator/tokens';
import { plots } from './spend/historyplots';
import { CommandIDs, INodeKey, ITpuModel, PANEL_ID } from './tokens';

export class TpuPanel extends VDomRenderer<ITpuModel> {
  constructor(
    model: ITpuModel,
    private readonly _commands: CommandRegistry,
    private readonly _translator: ITranslator,
    private readonly _money: IMoneyModel | null = null,
    private readonly _load: ILoadModel | null = null
  ) {
    super(model);
    const trans = this._translator.load('jupyter_tpu');
    this._errorActions = new ErrorActions(this._commands, trans);
    this.id = PANEL_ID;
    this.addClass('jp-tpu-Panel');
    this.title.icon = tpuIcon;
    this.title.caption = common.product(trans);
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', common.product(trans));
    this._commands.commandChanged.connect(this._onCommandChanged, this);
    if (_money) {
      const actions = moneyActions(_money, this._commands);
      const create = createActions(_money, this._commands);
      this._moneyRenderers = moneyRenderers(_money, actions, create, trans, {
        ...plots,
        idle: activityPlot
      });
    }
    if (_load) {
      const summary = _money && chipUseSummary(_money, trans);
      this._loadRenderer = loadRenderer(_load, loadActions(this._commands), plot, trans, summary);
    }
  }

  /** The model outlives the panel. */
  dispose(): void {
    this._commands.commandChanged.disconnect(this._onCommandChanged, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const canSwitchKernel = this._commands.isEnabled(CommandIDs.switchKernel);
    const canOpenSimulator = this._commands.hasCommand(SimulatorCommandIDs.open);
    return (
      <ErrorActionsContext.Provider value={this._errorActions}>
        <Panel
          state={{ ...snapshot(this.model), canSwitchKernel, canOpenSimulator }}
          actions={this._actions}
          money={this._moneyRenderers}
          load={this._loadRenderer}
          trans={this._translator.load('jupyter_tpu')}
        />
      </ErrorActionsContext.Provider>
    );
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._watch(true);
  }

  protected onBeforeHide(msg: Message): void {
    super.onBeforeHide(msg);
    this._watch(false);
  }

  private _watch(isWatched: boolean): void {
    this.model.isWatched = isWatched;
    if (this._money) {
      this._money.isWatched = isWatched;
    }
    if (this._load) {
      this._load.isWatched = isWatched;
    }
  }

  private _run(command: string, args: ReadonlyPartialJSONObject = {}): void {
    this._commands
      .execute(command, args)
      .catch(error => this._errorActions.notify(problemOf(error)));
  }

  /** Costs and auto-stop follow from the nodes, so they are requested after them. */
  private async _refresh(): Promise<void> {
    await this._commands.execute(CommandIDs.refresh);
    await this._money?.refresh();
  }

  private _onCommandChanged(_: CommandRegistry, change: CommandRegistry.ICommandChangedArgs): void {
    if (change.id === CommandIDs.switchKernel || change.id === SimulatorCommandIDs.open) {
      this.update();
    }
  }

  private readonly _errorActions: ErrorActions;
  private readonly _moneyRenderers: IMoneyRenderers | undefined;
  private readonly _loadRenderer: LoadRenderer | undefined;
  private readonly _actions: IPanelActions = {
    onOpenForm: () => this._run(CommandIDs.createNode),
    onCloseForm: () => this.model.closeForm(),
    onCreate: spec => this._commands.execute(CommandIDs.createNode, { ...spec }),
    onRefresh: () => void this._refresh(),
    onOpenSimulator: () => this._run(SimulatorCommandIDs.open),
    onOpenNotebook: key => this._run(CommandIDs.openNotebook, keyOnly(key)),
    onSwitchKernel: key => this._run(CommandIDs.switchKernel, keyOnly(key)),
    onStop: key => this._run(CommandIDs.stopNode, keyOnly(key)),
    onStart: key => this._run(CommandIDs.startNode, keyOnly(key)),
    onDelete: key => this._run(CommandIDs.deleteNode, keyOnly(key)),
    onDismissFailure: intent =>
      this._run(CommandIDs.dismissFailure, { intent_id: intent.intent_id }),
    onDismissRefusal: key => this.model.dismissRefusal(key)
  };
}

/** Commands get only the key of a node; the model knows the rest. */
function keyOnly({ zone, node_id }: INodeKey): ReadonlyPartialJSONObject {
  return { zone, node_id };
}

function snapshot(model: ITpuModel): Omit<IPanelState, 'canSwitchKernel' | 'canOpenSimulator'> {
  const { phase, status, list, offers, problem, offersProblem, refusals, busy } = model;
  const { isFormOpen, formRequest, isCollaborative, isRefreshing } = model;
  const answers = { phase, status, list, offers, problem, offersProblem };
  return { ...answers, refusals, busy, isFormOpen, formRequest, isCollaborative, isRefreshing };
}
