/** The plugins that show nodes in JupyterLab's own places: settings, Running panel, menus, notifications. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ICreateMemory } from '../create/tokens';
import { ErrorActions } from '../erroractions';
import * as common from '../messages/common';
import { IMoneyModel, SectionName } from '../money/tokens';
import { problemOf } from '../request';
import { formDefaults, NewNodeRules } from '../settings/newnodes';
import { ITpuSettings, TpuSettings } from '../settings/settings';
import { ITpuModel, NotebookCommandIDs } from '../tokens';
import { LastNodes } from './lastnode';
import { addNotebookCommands } from './notebookcommands';
import { NodeNotices } from './nodenotices';
import { NotebookNodes } from './notebooknodes';
import { RunningNodes, runner } from './running';

const DOMAIN = 'jupyter_tpu';
const CHANGE_KERNEL = 'notebook:change-kernel';
const SETTINGS = 'jupyter-tpu:settings';
const MINUTE_S = 60;
const SECOND_MS = 1000;

export const settings: JupyterFrontEndPlugin<ITpuSettings> = {
  id: SETTINGS,
  description: 'Settings, menus and shortcuts of the extension.',
  autoStart: true,
  provides: ITpuSettings,
  requires: [ITpuModel],
  optional: [IMoneyModel, ISettingRegistry, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    nodes: ITpuModel,
    money: IMoneyModel | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): ITpuSettings => {
    const own = new TpuSettings();
    const errors = new ErrorActions(commands, (translator ?? nullTranslator).load(DOMAIN));
    const rules = new NewNodeRules(nodes, own, commands, error => {
      errors.notify(problemOf(error));
    });
    nodes.nodeCreated.connect(rules.onCreated);
    commands.commandExecuted.connect(rules.onExecuted);
    nodes.stateChanged.connect(rules.onChange);
    own.changed.connect(() => applySettings(own, nodes, money));
    if (registry) {
      void own.follow(registry, SETTINGS);
    }
    return own;
  }
};

/** Let the models follow the user's settings. */
export function applySettings(
  { values }: ITpuSettings,
  nodes: ITpuModel,
  money: IMoneyModel | null
): void {
  nodes.formDefaults = formDefaults(values);
  nodes.idleDefault_s = values.idleMinutes * MINUTE_S;
  nodes.interval_ms = values.refreshSeconds * SECOND_MS;
  if (money) {
    const names = Object.entries(values.sections);
    money.hidden = new Set(names.flatMap(([name, isOn]) => (isOn ? [] : [name as SectionName])));
    money.interval_ms = values.refreshSeconds * SECOND_MS;
    money.warning_s = values.warnMinutes * MINUTE_S;
  }
}

export const running: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:running',
  description: 'Lists nodes with their price in the Running panel.',
  autoStart: true,
  requires: [ITpuModel],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    nodes: ITpuModel,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const errors = new ErrorActions(commands, trans);
    const run = runner(commands, error => errors.notify(problemOf(error)));
    managers?.add(new RunningNodes(nodes, run, trans));
  }
};

export const notebookCommands: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:notebook-commands',
  description:
    'Runs a notebook on a node that the user chooses, keeps its node running, and tells when a new node has its name.',
  autoStart: true,
  requires: [ITpuModel, INotebookTracker],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: ITpuModel,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    addNotebookCommands({ app, model, tracker, trans });
    const { sessions, kernelspecs } = app.serviceManager;
    const last = new LastNodes(
      {
        nodes: model,
        specs: () => kernelspecs.specs,
        isRunning: path => [...sessions.running()].some(session => session.path === path),
        onChooseKernel: panel => {
          app.shell.activateById(panel.id);
          void app.commands.execute(CHANGE_KERNEL);
        },
        trans
      },
      window.localStorage
    );
    tracker.widgetAdded.connect((_, panel) => last.watch(panel));
    const category = common.product(trans);
    [NotebookCommandIDs.runOnTpu, NotebookCommandIDs.keepCurrentNode].forEach(command =>
      palette?.addItem({ command, category })
    );
  }
};

export const nodeNotices: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:node-notices',
  description: 'Notifies of nodes that are ready, stop soon or were pre-empted.',
  autoStart: true,
  requires: [ITpuModel, ITpuSettings],
  optional: [IMoneyModel, INotebookTracker, ICreateMemory, ITranslator],
  activate: (
    { commands, serviceManager }: JupyterFrontEnd,
    nodes: ITpuModel,
    own: ITpuSettings,
    money: IMoneyModel | null,
    tracker: INotebookTracker | null,
    memory: ICreateMemory | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const errors = new ErrorActions(commands, trans);
    const notebooks = tracker && new NotebookNodes(tracker, () => serviceManager.kernelspecs.specs);
    const notices = new NodeNotices({
      ...{ nodes, money, settings: own, trans },
      isInNotebook: name => notebooks?.has(name) ?? false,
      opensItself: node => memory?.opensOn(node) ?? false,
      run: (command, args) =>
        void commands.execute(command, { ...args }).catch(error => errors.notify(problemOf(error)))
    });
    nodes.stateChanged.connect(notices.onNodes);
    money?.stateChanged.connect(notices.onMoney);
    serviceManager.sessions.runningChanged.connect(notices.onSessions);
  }
};
