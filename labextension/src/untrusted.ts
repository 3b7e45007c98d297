/** Shows outputs from nodes as untrusted if the user has chosen that: sanitised HTML, and no JavaScript. */

import type { CodeCell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';
import { Kernel } from '@jupyterlab/services';
import { markUntrusted } from './restore/cell';

/** The part of a notebook needed here. */
export type WatchedNotebook = Pick<NotebookPanel, 'content' | 'sessionContext' | 'disposed'>;

export class UntrustedOutputs {
  /** @param isOnNode whether a kernel of this name runs on a node */
  constructor(private readonly _isOnNode: (kernelName: string) => boolean) {}

  get isOn(): boolean {
    return this._isOn;
  }

  set isOn(value: boolean) {
    this._isOn = value;
    this._watched.forEach(notebook => {
      const kernel = notebook.sessionContext.session?.kernel;
      this._onKernel(notebook, kernel ?? null);
    });
  }

  watch(notebook: WatchedNotebook): void {
    const { sessionContext } = notebook;
    const onMessage = (
      kernel: Kernel.IKernelConnection,
      { direction, msg }: Kernel.IAnyMessageArgs
    ): void => {
      // JupyterLab trusts a cell when it sends its code, because the user ran it
      if (direction === 'send' && msg.header.msg_type === 'execute_request') {
        this._onRun(notebook, kernel, (msg.metadata as { cellId?: unknown }).cellId);
      }
    };
    let current: Kernel.IKernelConnection | null = null;
    const onKernel = (): void => {
      current?.anyMessage.disconnect(onMessage);
      current = sessionContext.session?.kernel ?? null;
      current?.anyMessage.connect(onMessage);
      this._onKernel(notebook, current);
    };
    this._watched.add(notebook);
    sessionContext.kernelChanged.connect(onKernel);
    notebook.disposed.connect(() => {
      this._watched.delete(notebook);
      sessionContext.kernelChanged.disconnect(onKernel);
      current?.anyMessage.disconnect(onMessage);
    });
    onKernel();
  }

  private _isUntrusted(kernel: Kernel.IKernelConnection): boolean {
    return this._isOn && this._isOnNode(kernel.name);
  }

  private _onRun(
    { content }: WatchedNotebook,
    kernel: Kernel.IKernelConnection,
    cellId: unknown
  ): void {
    const cell = content.widgets.find(({ model }) => model.id === cellId);
    if (cell && this._isUntrusted(kernel)) {
      markUntrusted(cell as CodeCell);
    }
  }

  /** Switch off comms: widgets contain scripts, some in their models, so none may be created from a node's messages. */
  private _onKernel({ content }: WatchedNotebook, kernel: Kernel.IKernelConnection | null): void {
    if (kernel && this._isUntrusted(kernel)) {
      if (kernel.handleComms) {
        kernel.handleComms = false;
        this._muted.add(kernel);
      }
      // earlier cells of this page may still print, or update their displays
      content.widgets.filter(hasRun).forEach(markUntrusted);
    } else if (kernel && this._muted.delete(kernel)) {
      kernel.handleComms = true;
    }
  }

  private readonly _watched = new Set<WatchedNotebook>();
  /** Connections whose comms this class has switched off. */
  private readonly _muted = new WeakSet<Kernel.IKernelConnection>();
  private _isOn = false;
}

function hasRun(cell: { readonly model: { readonly type: string } }): cell is CodeCell {
  return cell.model.type === 'code' && Boolean((cell as CodeCell).outputArea.future);
}
