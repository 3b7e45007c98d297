/** All that a running request has published, in its shortest form; pure. */

import { KernelMessage } from '@jupyterlab/services';
import { displayIdOf } from './records';

/**
 * What brings an empty output area to where the request is.
 *
 * A cell that is moved, or deleted and brought back, gets a new output area, which is filled from here.
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

  /** Take a message in; says whether what was shown until then is cleared by it. */
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

  /** Put new data where its display is shown, whoever asked for it. */
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
  /** A clearing that waits for the next output. */
  private _clear: KernelMessage.IClearOutputMsg | null = null;
}

/** Whether a message adds something to see. */
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
