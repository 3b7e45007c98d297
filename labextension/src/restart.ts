/** Reconnects a notebook to its kernel when the server has refused a restart. */

import { ISessionContext, showErrorMessage } from '@jupyterlab/apputils';
import { Kernel, ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import * as messages from './messages/notebook';
import { IRefusedRestarts } from './tokens';

/** A header of the server extension's error responses; errors of a proxy in between lack it. */
const REFUSED = 'Jupyter-TPU-Error';

/**
 * Repairs notebooks after a refused restart.
 *
 *  JupyterLab ends whatever ran in the page before it requests a restart, and does not undo that when the restart
 * fails: the notebook stays at "Restarting", and only the browser's console has the reason.
 */
export class RefusedRestarts implements IRefusedRestarts {
  /** @param _concerns whether a kernel is one of ours */
  constructor(
    private readonly _concerns: (kernel: Kernel.IKernelConnection) => boolean,
    private readonly _trans: TranslationBundle
  ) {}

  get refused(): ISignal<this, Kernel.IKernelConnection> {
    return this._refused;
  }

  /** Handle restarts of a notebook's kernel, also after it gets another kernel. */
  watch(session: ISessionContext): void {
    const restartKernel = session.restartKernel.bind(session);
    session.restartKernel = async () => {
      const kernel = session.session?.kernel;
      await restartKernel();
      // JupyterLab drops the error there, and "Restart and run all" would run all cells in the old process
      const refusal = kernel && this._refusals.get(kernel);
      if (refusal) {
        throw refusal;
      }
    };
    const onKernel = (): void => this._wrap(session.session?.kernel ?? null);
    session.kernelChanged.connect(onKernel);
    onKernel();
  }

  private _wrap(kernel: Kernel.IKernelConnection | null): void {
    if (!kernel || this._wrapped.has(kernel)) {
      return;
    }
    this._wrapped.add(kernel);
    const restart = kernel.restart.bind(kernel);
    kernel.restart = async () => {
      this._refusals.delete(kernel);
      try {
        await restart();
      } catch (error) {
        // not checked earlier, because the kernelspecs may load after the kernel
        if (this._concerns(kernel)) {
          this._onFailure(kernel, error);
        }
        throw error;
      }
    };
  }

  private _onFailure(kernel: Kernel.IKernelConnection, error: unknown): void {
    if (!kernel.isDisposed) {
      // a new connection is told whether the kernel is idle or busy
      kernel.reconnect().catch(() => undefined); // in that case JupyterLab or the reconnector tries again
    }
    if (isRefusal(error)) {
      this._refusals.set(kernel, error);
      if (!kernel.isDisposed) {
        this._refused.emit(kernel);
      }
      void showErrorMessage(messages.notRestarted(this._trans), error.message);
    }
  }

  private readonly _refused = new Signal<this, Kernel.IKernelConnection>(this);
  private readonly _wrapped = new WeakSet<Kernel.IKernelConnection>();
  /** Why the last restart of each kernel was refused. */
  private readonly _refusals = new WeakMap<Kernel.IKernelConnection, Error>();
}

/**
 * Whether this project's server extension refused, so that the old kernel is still running. A header tells, because
 * JupyterLab has already read the body.
 */
function isRefusal(error: unknown): error is ServerConnection.ResponseError {
  return error instanceof ServerConnection.ResponseError && error.response.headers.has(REFUSED);
}
