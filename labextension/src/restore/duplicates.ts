/** Drops duplicate messages where the server cannot know whether a page received them before its connection was cut. */

import { Kernel, KernelMessage } from '@jupyterlab/services';
import { spanOf } from './records';

/** Drop duplicate messages of a request that this page has just sent. */
export function dropDuplicates(kernel: Kernel.IKernelConnection, msgId: string): void {
  // the request is announced just before JupyterLab creates its future
  void Promise.resolve().then(() => {
    if (!kernel.isDisposed) {
      kernel.registerMessageHook(msgId, newMessagesOnly());
    }
  });
}

/** Return a filter that lets only new messages pass, by their positions in the record. */
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
