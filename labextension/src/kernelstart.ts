/** What an event of a starting kernel means for a notebook; pure. */

import { ISessionContext } from '@jupyterlab/apputils';
import { IKernelEvent, NODE_ENDED } from './tokens';

/** The part of an `ISessionContext` that is needed here. */
export type INotebookSession = Pick<ISessionContext, 'kernelDisplayName' | 'specsManager'> & {
  readonly session: {
    readonly kernel: { readonly id: string; readonly name: string } | null;
  } | null;
};

/**
 * Whether an event is about the kernel that a notebook has or waits for.
 *
 *  The browser learns a kernel's id only once the kernel has started; until then a notebook is recognised by the
 * kernelspec that it requested.
 */
export function isAbout(event: IKernelEvent, session: INotebookSession): boolean {
  const kernel = session.session?.kernel;
  if (kernel?.id === event.kernel_id) {
    return true;
  }
  const isWaiting = kernel?.name !== event.kernel_name;
  const spec = session.specsManager.specs?.kernelspecs[event.kernel_name];
  return isWaiting && spec?.display_name === session.kernelDisplayName;
}

/** Whether the kernel's start is over, so that the notebook needs no further status. */
export function isOver(event: IKernelEvent): boolean {
  return event.phase === 'ready' || event.phase === 'closed' || event.phase === NODE_ENDED;
}

export function percentOf({ fraction }: IKernelEvent): number | null {
  return fraction === null || fraction === undefined ? null : Math.round(fraction * 100);
}
