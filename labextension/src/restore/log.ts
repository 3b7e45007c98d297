/** All that a running request has published, in its shortest form; pure. */

import { KernelMessage } from '@jupyterlab/services';
import { displayIdOf } from './records';

/**
 * Messages that bring an empty output area to the current state of a request.
 *
 * A moved or restored cell gets a new output area, which is filled from here.
 */
export class MessageLog {
  constructor(messages: Iterable<KernelMessage.IIOPubMessage>) {
    for (const message of messages) {
      this.add(message);
    }
  }

  get messages(): readonly KernelMessage.IIOPubMessage[] {
    return this._clear ? [...this._shown, this._clear] : this._shown;
  }

  /** Add a message; returns whether it cleared what was shown before. */
  add(message: KernelMessage.IIOPubMessage): boolean {
    if (KernelMessage.isClearOutputMsg(message)) {
      return this._onClear(message);
    }
    if (KernelMessage.isUpdateDisplayDataMsg(message)) {
      this.update(message);
      return false;
    }
    return isOutput(message) && this._onOutput(message);
  }

  /** Update a display wherever it is shown, whichever request sent it. */
  update(message: KernelMessage.IIOPubMessage): void {
    const { data, metadata } = message.content as KernelMessage.IDisplayDataMsg['content'];
    const id = displayIdOf(message);
    this._shown.forEach((shown, index) => {
      if (KernelMessage.isDisplayDataMsg(shown) && displayIdOf(shown) === id) {
        this._shown[index] = { ...shown, content: { ...shown.content, data, metadata } };
      }
    });
  }

  private _onClear(message: KernelMessage.IClearOutputMsg): boolean {
    if (message.content.wait) {
      this._clear = message;
      return false;
    }
    this._reset();
    return true;
  }

  private _onOutput(message: KernelMessage.IIOPubMessage): boolean {
    const isCleared = this._clear !== null;
    if (isCleared) {
      this._reset();
    }
    const last = this._shown[this._shown.length - 1];
    if (last && KernelMessage.isStreamMsg(last) && continues(last, message)) {
      const text = last.content.text + message.content.text;
      this._shown[this._shown.length - 1] = { ...last, content: { ...last.content, text } };
    } else {
      this._shown.push(message);
    }
    return isCleared;
  }

  private _reset(): void {
    this._shown = [];
    this._clear = null;
  }

  private _shown: KernelMessage.IIOPubMessage[] = [];
  /** A pending `clear_output(wait=True)`. */
  private _clear: KernelMessage.IClearOutputMsg | null = null;
}

/** Whether a message adds something visible. */
export function isOutput(message: KernelMessage.IIOPubMessage): boolean {
  return (
    KernelMessage.isStreamMsg(message) ||
    KernelMessage.isDisplayDataMsg(message) ||
    KernelMessage.isExecuteResultMsg(message) ||
    KernelMessage.isErrorMsg(message)
  );
}

function continues(
  last: KernelMessage.IStreamMsg,
  next: KernelMessage.IIOPubMessage
): next is KernelMessage.IStreamMsg {
  return KernelMessage.isStreamMsg(next) && next.content.name === last.content.name;
}
