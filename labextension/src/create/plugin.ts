/** The plugins around the form for a new node: its memory, and the launcher's section. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ErrorActions } from '../erroractions';
import { problemOf } from '../request';
import { ITpuModel } from '../tokens';
import { addCreateCommands } from './commands';
import { LauncherSection } from './launcher';
import { CreateMemory, followExample } from './memory';
import { openOn } from './notebookopener';
import { OpenWhenReady } from './openwhenready';
import { ICreateMemory } from './tokens';

const DOMAIN = 'jupyter_tpu';
const CREATE = 'jupyter-tpu:create';

/** Provides the memory; without state or settings it lasts as long as the page. */
export const createMemory: JupyterFrontEndPlugin<ICreateMemory> = {
  id: CREATE,
  description: 'Remembers the choices for new nodes, and opens notebooks on them.',
  autoStart: true,
  provides: ICreateMemory,
  requires: [ITpuModel],
  optional: [ITranslator, INotebookTracker, ISettingRegistry, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    nodes: ITpuModel,
    translator: ITranslator | null,
    tracker: INotebookTracker | null,
    settings: ISettingRegistry | null,
    state: IStateDB | null
  ): ICreateMemory => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const errors = new ErrorActions(app.commands, trans);
    const { contents } = app.serviceManager;
    const isDemo = (): boolean => nodes.status?.emulated ?? false;
    const waiting = new OpenWhenReady(
      nodes,
      (node, open) =>
        void openOn({ app, nodes, tracker, trans }, node, open).catch(error =>
          errors.notify(problemOf(error))
        ),
      state
    );
    const { opensOn } = waiting;
    const memory = new CreateMemory({ state, tracker, contents, isDemo, opensOn });
    addCreateCommands({ app, nodes, memory, waiting, tracker, trans });
    nodes.stateChanged.connect(waiting.check);
    void memory.load(settings ? settings.load(CREATE) : Promise.resolve(null));
    void waiting.load();
    void app.restored.then(() => followExample(nodes, memory));
    return memory;
  }
};

export const launcher: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:launcher',
  description: 'The section Cloud TPU of the launcher.',
  autoStart: true,
  requires: [ITpuModel, ICreateMemory],
  optional: [ILauncher, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    nodes: ITpuModel,
    memory: ICreateMemory,
    cards: ILauncher | null,
    translator: ITranslator | null
  ): void => {
    if (!cards) {
      return; // the pages of Notebook 7 have no launcher
    }
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    // before the launcher is first rendered, so that it need not be rendered twice
    const section = new LauncherSection(cards, nodes, memory, trans);
    nodes.stateChanged.connect(section.update);
    memory.changed.connect(section.update);
  }
};
