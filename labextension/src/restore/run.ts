/** One recorded request, continued in its cell from the point where the record ends. */

import type { CodeCell } from '@jupyterlab/cells';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import * as nbformat from '@jupyterlab/nbformat';
import { endCell, joinCell, startCell } from './cell';
import { Displays } from './displays';
import { Outcome, RecordFuture, requestOf } from './future';
import { isOutput, MessageLog } from './log';
import { displayIdOf, IRecordedRequest, isOver, messagesOf, outputOf, publish } from './records';

/** The text that JupyterLab shows in the cell in place of a password. */
const HIDDEN = '········';

export class Run {
  /**
   * @param request the request and its outputs so far
   * @param cellId its cell, if the notebook has it
   * @param seq the last position that `request` includes
   */
  constructor(
    readonly request: IRecordedRequest,
    readonly cellId: string,
    public seq: number,
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _displays: Displays
  ) {
    this._log = new MessageLog(messagesOf(request));
    this._count = request.execution_count;
    this._input = request.input;
    this._asked = request.input?.header.msg_id ?? '';
    if (isOver(request)) {
      this._onEnd();
    }
  }

  get msgId(): string {
    return this.request.msg_id;
  }

  get isOver(): boolean {
    return this._isOver;
  }

  get executionCount(): number | null {
    return this._count;
  }

  /** Everything shown so far, as notebook outputs. */
  get outputs(): nbformat.IOutput[] {
    return this._log.messages.filter(isOutput).map(outputOf);
  }

  /** Whether messages reach the cell: a moved or restored cell has a new output area. */
  isIn(cell: CodeCell): boolean {
    const future = this._future;
    return cell === this._cell && cell.outputArea.future === future && !future?.isDisposed;
  }

  /** Whether there is output that the cell does not show. */
  get isBehind(): boolean {
    return this._isBehind;
  }

  /** Show everything in the cell, and continue there. */
  enter(cell: CodeCell): void {
    const { header, code } = this.request;
    this._cell = cell;
    this._isBehind = false;
    this._future = new RecordFuture(requestOf(header, code), this._kernel, this._outcome, content =>
      this._onAnswer(content)
    );
    this._displays.forget(this.cellId);
    joinCell(cell, this._future);
    startCell(cell, code);
    this._log.messages.forEach(message => this._show(message));
    if (this._input) {
      this._future.showQuestion(this._input);
    }
    if (this._isOver) {
      endCell(cell, this._count);
    }
  }

  onMessage(message: KernelMessage.IIOPubMessage): void {
    if (KernelMessage.isExecuteInputMsg(message)) {
      this._count = message.content.execution_count;
    } else if (KernelMessage.isStatusMsg(message)) {
      if (message.content.execution_state === 'idle') {
        this.end();
      }
    } else {
      this._onPublished(message);
    }
  }

  /** Handle a prompt of `input()`, which the server sends again to each new page. */
  onInputRequest(message: KernelMessage.IInputRequestMsg): void {
    if (message.header.msg_id !== this._asked) {
      this._asked = message.header.msg_id;
      this._input = message;
      this._future?.showQuestion(message);
    }
  }

  /** Update a display wherever it is shown. */
  update(message: KernelMessage.IIOPubMessage): void {
    this._log.update(message);
  }

  /** End the run: the request is finished, or never will be. */
  end(): void {
    if (this._isOver) {
      return;
    }
    this._onEnd();
    if (this._cell && this.isIn(this._cell)) {
      endCell(this._cell, this._count);
    }
  }

  private _onEnd(): void {
    this._isOver = true;
    this._input = null;
    this._outcome.resolve(requestOf(this.request.header, this.request.code), this._count);
  }

  private _onPublished(message: KernelMessage.IIOPubMessage): void {
    if (this._log.add(message)) {
      this._displays.forget(this.cellId);
    }
    if (!KernelMessage.isUpdateDisplayDataMsg(message)) {
      this._show(message);
    }
  }

  private _show(message: KernelMessage.IIOPubMessage): void {
    if (!this._cell || !this.isIn(this._cell)) {
      this._isBehind = true;
      return;
    }
    this._future?.feed(message);
    const displayId = displayIdOf(message);
    if (displayId && KernelMessage.isDisplayDataMsg(message)) {
      this._displays.add(displayId, this.cellId, this._cell.model.outputs.length - 1);
    }
  }

  /** Add the typed text, which JupyterLab writes into the cell but not into a new output area. */
  private _onAnswer({ value }: { value: string }): void {
    const { prompt, password } = this._input?.content ?? { prompt: '', password: false };
    const text = `${prompt} ${password ? HIDDEN : value}\n`;
    this._input = null;
    const { header } = this.request;
    this._log.add(
      publish({
        header: { ...header, msg_type: 'stream' },
        parent_header: header,
        content: { name: 'stdin', text }
      })
    );
  }

  private readonly _outcome = new Outcome();
  private readonly _log: MessageLog;
  private _future: RecordFuture | null = null;
  private _cell: CodeCell | null = null;
  private _count: number | null;
  private _isBehind = true;
  private _isOver = false;
  private _input: KernelMessage.IInputRequestMsg | null;
  private _asked = '';
}
