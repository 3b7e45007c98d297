/** One recorded request whose cell goes on from where the record is. */

import type { CodeCell } from '@jupyterlab/cells';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import * as nbformat from '@jupyterlab/nbformat';
import { endCell, joinCell, startCell } from './cell';
import { Displays } from './displays';
import { Outcome, RecordFuture, requestOf } from './future';
import { isOutput, MessageLog } from './log';
import { displayIdOf, IRecordedRequest, isOver, messagesOf, outputOf, publish } from './records';

/** What stands in the cell for a password, as JupyterLab writes it. */
const HIDDEN = '········';

export class Run {
  /**
   * @param request what was asked, and what came of it so far
   * @param cellId the cell that it is shown in, if the notebook has it
   * @param seq all that is recorded up to there is in `request`
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

  /** Everything shown so far, as outputs of a notebook. */
  get outputs(): nbformat.IOutput[] {
    return this._log.messages.filter(isOutput).map(outputOf);
  }

  /** Whether messages reach the cell: it may have been moved, or brought back, with a new output area. */
  isIn(cell: CodeCell): boolean {
    const future = this._future;
    return cell === this._cell && cell.outputArea.future === future && !future?.isDisposed;
  }

  /** Whether there is something that its cell does not show. */
  get isBehind(): boolean {
    return this._isBehind;
  }

  /** Show all there is in the cell, and go on there. */
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
      this._future.ask(this._input);
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

  /** A question of `input()`; the server asks it again of each new page. */
  onInputRequest(message: KernelMessage.IInputRequestMsg): void {
    if (message.header.msg_id !== this._asked) {
      this._asked = message.header.msg_id;
      this._input = message;
      this._future?.ask(message);
    }
  }

  /** Put new data where its display is shown. */
  update(message: KernelMessage.IIOPubMessage): void {
    this._log.update(message);
  }

  /** The request is done, or will never be. */
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

  /** JupyterLab writes what was typed into the cell; a new output area has to be told. */
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
