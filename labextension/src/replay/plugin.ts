/** After the end of a node, one line above each of its notebooks: how to go on, and the cells to run again. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { Event, ServiceManager } from '@jupyterlab/services';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { ErrorActions } from '../erroractions';
import { markText } from '../messages/replay';
import { mayRunOnNode } from '../nodekernel';
import { problemOf, TpuClient } from '../request';
import {
  CommandIDs,
  FLEET_SCHEMA,
  IKernelEvent,
  ITpuModel,
  KERNEL_SCHEMA,
  LINK_SCHEMA,
  NODE_ENDED
} from '../tokens';
import { addReplayCommands, ReplayCommandIDs } from './commands';
import { CutMarks } from './marks';
import { ReplayCells } from './notebook';
import { ReplayNotice } from './notice';
import { NotebookReplay } from './replay';
import { ShownEnds } from './shown';
import { ReplaySource } from './source';
import { IWayBack } from './wayback';

const DOMAIN = 'jupyter_tpu';
const CHANGE_KERNEL = 'notebook:change-kernel';

export const replay: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:replay',
  description:
    'Shows why a node has ended in its notebooks, and offers to rerun the cells that were lost with it.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator, ITpuModel],
  activate: (
    { commands, docRegistry, serviceManager }: JupyterFrontEnd,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    nodes: ITpuModel | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const errors = new ErrorActions(commands, trans);
    const source = new ReplaySource(new TpuClient(serviceManager.serverSettings, trans));
    const replays = new WeakMap<NotebookPanel, NotebookReplay>();
    const ends = new ShownEnds(window.sessionStorage);
    serviceManager.contents.fileChanged.connect((_, change) => ends.onFileChanged(change));
    docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => openWithoutKernel(panel, ends)
    });
    addReplayCommands({ commands, tracker, trans, of: panel => replays.get(panel) });
    tracker.widgetAdded.connect((_, panel) => {
      const cells = new ReplayCells(panel);
      let { path } = panel.context;
      const own = new NotebookReplay(source, cells, end => ends.put(path, end));
      panel.context.pathChanged.connect((_, to) => {
        ends.move(path, to);
        path = to;
      });
      replays.set(panel, own);
      const shown = ends.of(path);
      if (shown) {
        void own.restore(shown);
      }
      follow(panel, own, serviceManager);
      mark(panel, own, cells, trans);
      // the path at the time of the click: a notebook may be renamed
      const execute = (id: string) => (): void =>
        void commands.execute(id, { path: panel.context.path });
      const actions = {
        onRun: execute(ReplayCommandIDs.run),
        onDismiss: () => {
          execute(ReplayCommandIDs.dismiss)();
          panel.content.activate(); // the button that had the focus is gone
        },
        onWayBack: ({ command, args }: IWayBack) => {
          // the form works without the plugin that recreates nodes and opens their notebooks
          const id = commands.hasCommand(command) ? command : CommandIDs.openForm;
          const { path } = panel.context;
          commands.execute(id, { ...args, path }).catch(error => errors.notify(problemOf(error)));
        },
        onChooseKernel: () => void commands.execute(CHANGE_KERNEL)
      };
      panel.contentHeader.addWidget(new ReplayNotice(own, nodes, actions, trans));
    });
  }
};

/**
 * Let a notebook whose node has ended open without a kernel, as it was before the page was reloaded.
 *
 *  Its kernelspec is gone, so JupyterLab's dialog would otherwise ask for another kernel, above the line that explains
 * why.
 */
function openWithoutKernel({ context }: NotebookPanel, ends: ShownEnds): void {
  const { path, sessionContext } = context;
  const { kernelPreference } = sessionContext;
  // a kernel with a name was chosen by the user
  if (ends.of(path) && !kernelPreference.name) {
    sessionContext.kernelPreference = { ...kernelPreference, shouldStart: false };
  }
}

/** Request what was lost when the notebook gets a kernel, when its node ends, and when its kernel is back. */
function follow(
  { sessionContext, disposed }: NotebookPanel,
  own: NotebookReplay,
  { events, kernelspecs }: ServiceManager.IManager
): void {
  const refresh = (): void => {
    const kernel = sessionContext.session?.kernel;
    if (kernel && !mayRunOnNode(kernel.name, kernelspecs.specs)) {
      own.onOtherKernel();
    } else {
      void own.refresh(kernel?.id ?? null);
    }
  };
  const onEvent = (_: Event.IManager, event: Event.Emission): void => {
    const { kernel_id, phase } = event as unknown as IKernelEvent;
    if (event.schema_id === FLEET_SCHEMA) {
      void own.onNodes();
      return;
    }
    const isNews = event.schema_id === KERNEL_SCHEMA || event.schema_id === LINK_SCHEMA;
    if (!isNews || kernel_id !== sessionContext.session?.kernel?.id) {
      return;
    }
    if (event.schema_id === KERNEL_SCHEMA && phase === NODE_ENDED) {
      void own.onNodeEnded(kernel_id);
    } else if (event.schema_id === KERNEL_SCHEMA && phase === 'ready') {
      void own.onKernelReady(kernel_id);
    } else {
      refresh();
    }
  };
  sessionContext.kernelChanged.connect(refresh);
  events.stream.connect(onEvent);
  disposed.connect(() => events.stream.disconnect(onEvent));
  refresh();
}

/** Mark the interrupted cells until they are run again, and record which lost cells the user runs. */
function mark(
  panel: NotebookPanel,
  own: NotebookReplay,
  cells: ReplayCells,
  trans: TranslationBundle
): void {
  const lostAt = (): number => own.lost?.lost_at ?? 0;
  const marks = new CutMarks(
    cellId => cells.find(cellId),
    run => markText(run, lostAt(), new Date(), trans)
  );
  let shown: object | null = null;
  const show = (): void => {
    if (own.lost !== shown) {
      shown = own.lost;
      marks.show(own.lost?.cells ?? []);
    }
  };
  const onScheduled = (
    _: unknown,
    { notebook, cell }: { notebook: object; cell: { model: { id: string } } }
  ): void => {
    if (notebook === panel.content) {
      marks.remove(cell.model.id);
    }
  };
  const onExecuted = (
    _: unknown,
    {
      notebook,
      cell,
      success
    }: { notebook: object; cell: { model: { id: string } }; success: boolean }
  ): void => {
    if (notebook === panel.content) {
      void own.onExecuted(cell.model.id, success);
    }
  };
  own.changed.connect(show);
  void panel.context.ready.then(() => {
    shown = null; // until now there were no cells to mark
    show();
  });
  NotebookActions.executionScheduled.connect(onScheduled);
  NotebookActions.executed.connect(onExecuted);
  panel.disposed.connect(() => {
    NotebookActions.executionScheduled.disconnect(onScheduled);
    NotebookActions.executed.disconnect(onExecuted);
  });
}
