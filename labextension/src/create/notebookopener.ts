/** Opens notebooks with a node's kernel set, without asking which kernel. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { INode } from '../api.generated';
import { IOpenChoice } from '../tokens';

const NEW_NOTEBOOK = 'notebook:create-new';
const OPEN_DOCUMENT = 'docmanager:open';

/** Load the kernelspecs again if that of a node is missing: a new one may not have reached the browser yet. */
export async function ensureKernelspec(app: JupyterFrontEnd, node: INode): Promise<void> {
  const manager = app.serviceManager.kernelspecs;
  if (!manager.specs?.kernelspecs[node.kernelspec ?? '']) {
    await manager.refreshSpecs();
  }
}

/** Open a choice on a READY node; the promise resolves once its cells run, if they are to run. */
export async function openOn(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  node: INode,
  open: IOpenChoice
): Promise<void> {
  await ensureKernelspec(app, node);
  const kernelName = node.kernelspec ?? undefined;
  if (open.path === undefined) {
    await app.commands.execute(NEW_NOTEBOOK, { kernelName });
    return;
  }
  const { path } = open;
  const panel =
    tracker?.find(({ context }) => context.path === path) ??
    ((await app.commands.execute(OPEN_DOCUMENT, {
      path,
      factory: 'Notebook',
      kernel: { name: kernelName },
      // text typed in another document must not end up in this one
      options: { activate: !isTyping() }
    })) as NotebookPanel);
  const { sessionContext } = panel;
  await sessionContext.ready;
  // an open notebook, or one whose kernel still runs elsewhere
  if (sessionContext.session?.kernel?.name !== kernelName) {
    await sessionContext.changeKernel({ name: kernelName });
  }
  if (!isTyping()) {
    app.shell.activateById(panel.id);
  }
  if (open.runsAll && sessionContext.session?.kernel) {
    await NotebookActions.runAll(panel.content, sessionContext);
  }
}

/** Whether the keyboard focus is in a document. */
function isTyping(): boolean {
  return Boolean(document.activeElement?.closest('.jp-Document'));
}
