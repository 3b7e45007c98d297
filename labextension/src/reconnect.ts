/** Reconnects pages as soon as the server responds, where JupyterLab would wait long or has given up. */

import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';

/**
 * Short, because a user may be waiting in front of a notebook without its kernel, and the probe is one small request.
 */
const INTERVAL_MS = 1_000;
/** How long a connection attempt is given before a new one replaces it. */
const TIMEOUT_MS = 10_000;

export class Reconnector implements IDisposable {
  /**
   * @param probe resolves when the server answers
   * @param concerns whether a kernel is one of ours
   */
  constructor(
    private readonly _probe: () => Promise<unknown>,
    private readonly _concerns: (kernel: Kernel.IKernelConnection) => boolean
  ) {
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:reconnect',
      factory: () => this._tryAll(),
      frequency: { interval: INTERVAL_MS, backoff: false },
      linger: 0,
      standby: () => (this._cut.size > 0 ? 'when-hidden' : true)
    });
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  /** Reconnect the kernel of a notebook, also after it gets another kernel. */
  watch(session: ISessionContext): void {
    session.connectionStatusChanged.connect(this._onStatus, this);
  }

  dispose(): void {
    this._poll.dispose();
    this._cut.clear();
  }

  private _onStatus({ session }: ISessionContext, status: Kernel.ConnectionStatus): void {
    const kernel = session?.kernel;
    if (!kernel || !this._concerns(kernel)) {
      return;
    }
    if (status === 'connected') {
      this._known.add(kernel);
      this._cut.delete(kernel);
    } else if (!this._cut.has(kernel)) {
      this._cut.set(kernel, this._known.has(kernel) ? 0 : Date.now());
      void this._poll.start();
    }
  }

  private async _tryAll(): Promise<void> {
    await this._probe();
    this._cut.forEach((triedAt_ms, kernel) => this._try(kernel, triedAt_ms));
  }

  private _try(kernel: Kernel.IKernelConnection, triedAt_ms: number): void {
    if (kernel.isDisposed || kernel.connectionStatus === 'connected') {
      this._cut.delete(kernel);
    } else if (Date.now() - triedAt_ms >= TIMEOUT_MS) {
      this._cut.set(kernel, Date.now());
      kernel.reconnect().catch(() => undefined); // then the next round tries again
    }
  }

  private readonly _poll: Poll;
  /** Kernels without a connection, and the time of the last attempt in milliseconds. */
  private readonly _cut = new Map<Kernel.IKernelConnection, number>();
  private readonly _known = new WeakSet<Kernel.IKernelConnection>();
}
