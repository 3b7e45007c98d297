/** Opens notebooks with a node's kernel set, without asking which kernel. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { INode } from '../api.generated';
import { ErrorActions } from '../erroractions';
import { hasKernel, isEnding } from '../fleet';
import * as messages from '../messages/create';
import { nodeNameOf } from '../nodekernel';
import { problemOf } from '../request';
import { IOpenChoice, ITpuModel } from '../tokens';

const NEW_NOTEBOOK = 'notebook:create-new';
const OPEN_DOCUMENT = 'docmanager:open';

/** Load the kernelspecs again if that of a node is missing: a new one may not have reached the browser yet. */
export async function ensureKernelspec(app: JupyterFrontEnd, node: INode): Promise<void> {
  const manager = app.serviceManager.kernelspecs;
  if (!manager.specs?.kernelspecs[node.kernelspec ?? '']) {
    await manager.refreshSpecs();
  }
}

export interface IOpenContext {
  readonly app: JupyterFrontEnd;
  readonly nodes: Pick<ITpuModel, 'list' | 'stateChanged'>;
  readonly tracker: INotebookTracker | null;
  readonly trans: TranslationBundle;
}

/**
 * Open a choice on a READY node; the promise resolves once its cells run, if they are to run.
 *
 * @param mayMove whether to end a kernel that the notebook has on another node; if not, a notification offers that
 */
export async function openOn(
  context: IOpenContext,
  node: INode,
  open: IOpenChoice,
  mayMove = false
): Promise<void> {
  const { app, tracker } = context;
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
  const kernel = sessionContext.session?.kernel ?? null;
  const other = mayMove ? null : nodeInUse(context, kernel);
  if (other && other.name !== node.name) {
    offerMove(context, node, other, open);
    return;
  }
  // an open notebook, or one whose kernel still runs elsewhere
  if (kernel?.name !== kernelName) {
    await sessionContext.changeKernel({ name: kernelName });
  }
  if (!isTyping()) {
    app.shell.activateById(panel.id);
  }
  if (open.runsAll && sessionContext.session?.kernel) {
    await NotebookActions.runAll(panel.content, sessionContext);
  }
}

/** The node on which a notebook's kernel lives; null if it has none, or if the node has ended or is about to end. */
function nodeInUse(
  { app, nodes: { list } }: IOpenContext,
  kernel: Pick<Kernel.IKernelConnection, 'name' | 'status'> | null
): INode | null {
  if (!kernel || kernel.status === 'dead') {
    return null;
  }
  const name = nodeNameOf(kernel.name, app.serviceManager.kernelspecs.specs);
  const node = list?.nodes.find(one => one.name === name && hasKernel(one));
  return node && !isEnding(list, node.name) ? node : null;
}

/**
 * Leave the notebook where it runs, and let the user move it: that ends its kernel and loses its variables. Withdraw
 * the notification once the node can no longer run a kernel.
 */
function offerMove(context: IOpenContext, node: INode, other: INode, open: IOpenChoice): void {
  const { app, nodes, trans } = context;
  const errors = new ErrorActions(app.commands, trans);
  const name = open.path?.split('/').pop() ?? '';
  const text = messages.stillRuns(node.node_id, name, other.node_id, trans);
  const label = messages.moveTo(node.node_id, trans);
  const callback = (): void =>
    void openOn(context, node, open, true).catch(error => errors.notify(problemOf(error)));
  const id = Notification.info(text, { autoClose: false, actions: [{ label, callback }] });
  const withdraw = (): void => {
    const { list } = nodes;
    // a reload of the list is no news about the node
    if (list && list.as_of !== null && !list.nodes.some(isSameReady)) {
      nodes.stateChanged.disconnect(withdraw);
      Notification.dismiss(id);
    }
  };
  const isSameReady = (one: INode): boolean => one.name === node.name && hasKernel(one);
  nodes.stateChanged.connect(withdraw);
}

/** Whether the keyboard focus is in a document. */
function isTyping(): boolean {
  return Boolean(document.activeElement?.closest('.jp-Document'));
}
