/** Each message once, also where the server cannot know whether a page got it before the connection was cut. */

import { Kernel, KernelMessage } from '@jupyterlab/services';
import { spanOf } from './records';

/** Let a request that this page has just sent hear nothing twice. */
export function dropDuplicates(kernel: Kernel.IKernelConnection, msgId: string): void {
  // a request is told of just before JupyterLab has made its future
  void Promise.resolve().then(() => {
    if (!kernel.isDisposed) {
      kernel.registerMessageHook(msgId, newMessagesOnly());
    }
  });
}

/** Tells messages that are new from those that were heard, by their places in the record. */
export function newMessagesOnly(): (message: KernelMessage.IIOPubMessage) => boolean {
  let last = -1;
  return message => {
    const span = spanOf(message);
    if (span && span.last <= last) {
      return false;
    }
    last = span?.last ?? last;
    return true;
  };
}
