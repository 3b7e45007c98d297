/** Tells of kernels that do not start even when their notebooks are not in sight. */

import { Notification } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { IKernelEvent, KERNEL_SCHEMA } from './tokens';

/** One notice for each kernel, which says the newest: a server tries several times to start one. */
export class FailureNotices {
  /** Hears all events of the server. */
  readonly hear = (_: unknown, event: Event.Emission): void => {
    const { error_code, kernel_id, message } = event as unknown as IKernelEvent;
    if (event.schema_id === KERNEL_SCHEMA && error_code) {
      this._tell(kernel_id, message);
    }
  };

  private _tell(kernelId: string, message: string): void {
    const id = this._shown.get(kernelId);
    if (id === undefined || !Notification.update({ id, message })) {
      this._shown.set(kernelId, Notification.error(message, { autoClose: false }));
    }
  }

  private readonly _shown = new Map<string, string>();
}
