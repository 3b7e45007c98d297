/** A future for a request that an earlier page has sent. */

import { Kernel, KernelMessage } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

type Request = KernelMessage.IExecuteRequestMsg;
type Reply = KernelMessage.IExecuteReplyMsg;
type Hook = (msg: KernelMessage.IIOPubMessage) => boolean | PromiseLike<boolean>;

/** What becomes of a request; all futures of one request share it, since JupyterLab keeps those of moved cells. */
export class Outcome {
  get done(): Promise<Reply> {
    return this._done.promise;
  }

  /** The reply itself went to the page that asked; a cell needs no more of it than the number. */
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
 * What an output area takes for the future of its request.
 *
 * The services of JupyterLab only make futures for requests that they send, so this one is fed with
 * what is recorded and then with the live messages of the request.
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

  /** The kernel takes an answer from any session. */
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

  /** Newest hook first; one that says no keeps the message from the output area. */
  feed(msg: KernelMessage.IIOPubMessage): void {
    if (this._hooks.every(hook => hook(msg) !== false)) {
      void this.onIOPub(msg);
    }
  }

  ask(msg: KernelMessage.IInputRequestMsg): void {
    this._kernel.hasPendingInput = true;
    void this.onStdin(msg);
  }

  private _hooks: readonly Hook[] = [];
  private _isDisposed = false;
}

/** The request's message, as far as the record has it. */
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
