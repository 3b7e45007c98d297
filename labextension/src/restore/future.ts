/** A future for a request that an earlier page has sent. */

import { Kernel, KernelMessage } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

type Request = KernelMessage.IExecuteRequestMsg;
type Reply = KernelMessage.IExecuteReplyMsg;
type Hook = (msg: KernelMessage.IIOPubMessage) => boolean | PromiseLike<boolean>;

/** The outcome of a request. All its futures share it, because JupyterLab keeps those of moved cells. */
export class Outcome {
  get done(): Promise<Reply> {
    return this._done.promise;
  }

  /** Set the reply to a request. The real one went to the page that sent it; a cell needs only the execution count. */
  resolve(request: Request, count: number | null): void {
    this._done.resolve({
      ...request,
      header: { ...request.header, msg_type: 'execute_reply' },
      parent_header: request.header,
      content: { status: 'ok', execution_count: count, user_expressions: {} }
    } as unknown as Reply);
  }

  private readonly _done = new PromiseDelegate<Reply>();
}

/**
 * The future of a restored request, as an output area expects it.
 *
 * JupyterLab's services create futures only for requests that they send, so this one is fed with the recorded
 * messages and then with the live ones.
 */
export class RecordFuture implements Kernel.IShellFuture<Request, Reply> {
  constructor(
    readonly msg: Request,
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _outcome: Outcome,
    private readonly _onAnswer: (content: { value: string }) => void
  ) {}

  onIOPub: (msg: KernelMessage.IIOPubMessage) => void | PromiseLike<void> = () => undefined;
  onReply: (msg: Reply) => void | PromiseLike<void> = () => undefined;
  onStdin: (msg: KernelMessage.IStdinMessage) => void | PromiseLike<void> = () => undefined;

  get done(): Promise<Reply> {
    return this._outcome.done;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._hooks = [];
  }

  /** Send the answer to `input()`; the kernel accepts it from any session. */
  sendInputReply(
    content: KernelMessage.IInputReplyMsg['content'],
    parent: KernelMessage.IInputReplyMsg['parent_header']
  ): void {
    if ('value' in content) {
      this._onAnswer(content);
    }
    this._kernel.sendInputReply(content, parent);
  }

  registerMessageHook(hook: Hook): void {
    this._hooks = [hook, ...this._hooks];
  }

  removeMessageHook(hook: Hook): void {
    this._hooks = this._hooks.filter(other => other !== hook);
  }

  /** Give a message to the hooks, newest first, and then to the output area unless a hook returns false. */
  feed(msg: KernelMessage.IIOPubMessage): void {
    if (this._hooks.every(hook => hook(msg) !== false)) {
      void this.onIOPub(msg);
    }
  }

  showQuestion(msg: KernelMessage.IInputRequestMsg): void {
    this._kernel.hasPendingInput = true;
    void this.onStdin(msg);
  }

  private _hooks: readonly Hook[] = [];
  private _isDisposed = false;
}

/** The message of the request, as complete as the record has it. */
export function requestOf(header: Request['header'], code: string): Request {
  return {
    header,
    parent_header: {},
    metadata: {},
    content: { code },
    channel: 'shell',
    buffers: []
  };
}
