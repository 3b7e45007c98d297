/** The content of the panel: models as React elements, and clicks as commands. Loaded when the panel is first shown. */

import { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import React from 'react';
import { activityPlot } from './autostop/activityplot';
import { chipUseSummary } from './autostop/chipuse';
import { IPanelActions, IPanelState, ISetupView, Panel } from './components/panel';
import { ErrorActions, ErrorActionsContext } from './erroractions';
import { plot } from './load/plot';
import { loadActions, loadRenderers } from './load/renderer';
import { ILoadModel } from './load/tokens';
import { ICreateExtras } from './create/chosen';
import { ICreateMemory } from './create/tokens';
import { createActions, moneyActions } from './money/actions';
import { moneyRenderers } from './money/renderers';
import { IMoneyModel, MoneyCommandIDs } from './money/tokens';
import { IKernelActions } from './nodes/kernellist';
import { kernelRenderers } from './nodes/kernelrenderers';
import { INodeKernels } from './nodes/kernels';
import { INodeRenderers } from './nodes/nodecard';
import { problemOf } from './request';
import { SetupSection } from './setup/section';
import { ISetupModel, SetupCommandIDs } from './setup/tokens';
import { SimulatorCommandIDs } from './simulator/tokens';
import { plots } from './spend/historyplots';
import { ITerminalActions, TerminalList } from './terminals/terminallist';
import { INodeTerminals, TerminalCommandIDs } from './terminals/tokens';
import { CommandIDs, CreateCommandIDs, INodeKey, ITpuModel } from './tokens';

export interface IPanelSources {
  readonly model: ITpuModel;
  readonly commands: CommandRegistry;
  readonly translator: ITranslator;
  readonly money: IMoneyModel | null;
  readonly load: ILoadModel | null;
  readonly kernels: INodeKernels;
  readonly memory: ICreateMemory | null;
  readonly setup: ISetupModel | null;
  readonly terminals: INodeTerminals | null;
}

export class PanelView implements IDisposable {
  /** @param _update renders again, because something has changed other than the model */
  constructor(
    sources: IPanelSources,
    private readonly _update: () => void
  ) {
    this._model = sources.model;
    this._commands = sources.commands;
    this._money = sources.money;
    this._load = sources.load;
    this._memory = sources.memory;
    this._setup = sources.setup;
    this._trans = sources.translator.load('jupyter_tpu');
    this._errorActions = new ErrorActions(this._commands, this._trans);
    this._commands.commandChanged.connect(this._onCommandChanged, this);
    this._memory?.changed.connect(this._update, this);
    this._setup?.stateChanged.connect(this._update, this);
    this._renderers = {
      money: this._moneyRenderers(),
      load: this._loadRenderers(),
      kernels: kernelRenderers(sources.kernels, this._kernelActions, this._trans),
      terminals: this._terminalRenderer(sources.terminals)
    };
  }

  private _terminalRenderer(terminals: INodeTerminals | null): INodeRenderers['terminals'] {
    const actions = this._terminalActions;
    return terminals
      ? node => <TerminalList {...{ node, terminals, actions }} trans={this._trans} />
      : undefined;
  }

  private _moneyRenderers(): INodeRenderers['money'] {
    if (!this._money) {
      return undefined;
    }
    const actions = moneyActions(this._money, this._commands);
    const create = createActions(this._money, this._commands, this._trans);
    const charts = { ...plots, idle: activityPlot };
    return moneyRenderers(this._money, actions, create, this._trans, charts);
  }

  private _loadRenderers(): INodeRenderers['load'] {
    if (!this._load) {
      return undefined;
    }
    const summary = this._money && chipUseSummary(this._money, this._trans);
    return loadRenderers(this._load, loadActions(this._commands), plot, this._trans, summary);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Disconnect from the models, which outlive the panel. */
  dispose(): void {
    this._commands.commandChanged.disconnect(this._onCommandChanged, this);
    this._memory?.changed.disconnect(this._update, this);
    this._setup?.stateChanged.disconnect(this._update, this);
    this._isDisposed = true;
  }

  render(): JSX.Element {
    const canOpenSimulator = this._commands.hasCommand(SimulatorCommandIDs.open);
    return (
      <ErrorActionsContext.Provider value={this._errorActions}>
        <Panel
          state={{ ...snapshot(this._model), canOpenSimulator }}
          actions={this._actions}
          renderers={this._renderers}
          extras={this._memory ? this._extras(this._memory) : undefined}
          setup={this._setup ? this._setupView(this._setup) : undefined}
          trans={this._trans}
        />
      </ErrorActionsContext.Provider>
    );
  }

  private _setupView(model: ISetupModel): ISetupView {
    const { status, list, isFormOpen } = this._model;
    const { firstStep } = model;
    const section = (
      <SetupSection
        {...{ model, status, list, isFormOpen }}
        example={this._memory?.example ?? null}
        actions={this._setupActions}
        trans={this._trans}
      />
    );
    return {
      section,
      isConnecting: firstStep === 'connect',
      isLeading: firstStep === 'connect' || firstStep === 'create'
    };
  }

  private _run(command: string, args: ReadonlyPartialJSONObject = {}): void {
    this._commands
      .execute(command, args)
      .catch(error => this._errorActions.notify(problemOf(error)));
  }

  private _extras(memory: ICreateMemory): ICreateExtras {
    return {
      memory,
      onRemember: (node_id, choice, open) => memory.remember(node_id, choice, open),
      onOpenWhenReady: (node_id, zone, open) =>
        this._run(CreateCommandIDs.openWhenReady, { node_id, zone, open: { ...open } }),
      onSaveProfile: ({ name, choice }) =>
        this._run(CreateCommandIDs.saveProfile, { name, choice: { ...choice } }),
      onDeleteProfile: name => this._run(CreateCommandIDs.deleteProfile, { name })
    };
  }

  /** Request the nodes first, because costs and auto-stop follow from them. */
  private async _refresh(): Promise<void> {
    await this._commands.execute(CommandIDs.refresh);
    await this._money?.refresh();
  }

  private _onCommandChanged(_: CommandRegistry, change: CommandRegistry.ICommandChangedArgs): void {
    if (change.id === SimulatorCommandIDs.open) {
      this._update();
    }
  }

  private readonly _model: ITpuModel;
  private readonly _commands: CommandRegistry;
  private readonly _money: IMoneyModel | null;
  private readonly _load: ILoadModel | null;
  private readonly _memory: ICreateMemory | null;
  private readonly _setup: ISetupModel | null;
  private readonly _trans: TranslationBundle;
  private readonly _errorActions: ErrorActions;
  private readonly _renderers: INodeRenderers;
  private _isDisposed = false;
  private readonly _kernelActions: IKernelActions = {
    onOpen: ({ sessionId }) => this._run(CommandIDs.openKernel, { session_id: sessionId }),
    onRestart: ({ sessionId }) => this._run(CommandIDs.restartKernel, { session_id: sessionId }),
    onShutDown: ({ sessionId }) => this._run(CommandIDs.shutDownKernel, { session_id: sessionId })
  };
  private readonly _terminalActions: ITerminalActions = {
    onShow: (key, terminal) => this._run(TerminalCommandIDs.show, { ...keyOnly(key), terminal }),
    onShutDown: (key, terminal) =>
      this._run(TerminalCommandIDs.shutDown, { ...keyOnly(key), terminal })
  };
  private readonly _setupActions: React.ComponentProps<typeof SetupSection>['actions'] = {
    onPerform: ({ key, action, target }, values) => {
      if (action === 'add_grant') {
        this._run(MoneyCommandIDs.showSection, { section: 'grants' });
      } else if (action === 'open_billing') {
        this._run(CommandIDs.openConsole, { page: 'billing', project: target });
      } else {
        this._run(SetupCommandIDs.perform, { key, values: { ...values } });
      }
    },
    onCopy: command_line => this._run(CommandIDs.copyCommand, { command_line }),
    onCheck: () => void this._setup?.check(),
    onOpenForm: () => this._run(CommandIDs.createNode),
    onStartTrial: () => this._run(SetupCommandIDs.startTrial),
    onEndTrial: () => this._run(SetupCommandIDs.endTrial)
  };
  private readonly _actions: IPanelActions = {
    onOpenForm: () => this._run(CommandIDs.createNode),
    onCloseForm: () => this._model.closeForm(),
    onCreate: spec => this._commands.execute(CommandIDs.createNode, { ...spec }),
    onRefresh: () => void this._refresh(),
    onOpenSimulator: () => this._run(SimulatorCommandIDs.open),
    onOpenNotebook: key => this._run(CommandIDs.openNotebook, keyOnly(key)),
    onToggle: key => this._model.toggleCard(key),
    onStopNodes: keys => this._run(CommandIDs.stopNodes, { nodes: keys.map(keyOnly) }),
    onCancelCreation: key => this._run(CommandIDs.cancelCreation, keyOnly(key)),
    onCopy: text => this._run(CommandIDs.copyCommand, { command_line: text }),
    onStart: key => this._run(CommandIDs.startNode, keyOnly(key)),
    onDelete: key => this._run(CommandIDs.deleteNode, keyOnly(key)),
    onRecreate: key => this._run(CreateCommandIDs.recreateNode, keyOnly(key)),
    onDismissFailure: intent =>
      this._run(CommandIDs.dismissFailure, { intent_id: intent.intent_id }),
    onDismissRefusal: key => this._model.dismissRefusal(key)
  };
}

/** The key of a node: commands get nothing else, because the model knows the rest. */
function keyOnly({ zone, node_id }: INodeKey): ReadonlyPartialJSONObject {
  return { zone, node_id };
}

function snapshot(model: ITpuModel): Omit<IPanelState, 'canOpenSimulator'> {
  const { phase, status, list, offers, problem, offersProblem, refusals, busy } = model;
  const { isFormOpen, formRequest, isCollaborative, isRefreshing } = model;
  const { openCards, revealedCard, createdNode, formDefaults, idleDefault_s } = model;
  const answers = { phase, status, list, offers, problem, offersProblem };
  const cards = { refusals, busy, openCards, revealedCard, createdNode };
  const form = { isFormOpen, formRequest, formDefaults, idleDefault_s };
  return { ...answers, ...cards, ...form, isCollaborative, isRefreshing };
}
