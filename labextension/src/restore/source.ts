/** The source of restored outputs: the server extension and Jupyter's own routes. */

import { Kernel, KernelAPI, ServiceManager } from '@jupyterlab/services';
import { mayRunOnNode } from '../nodekernel';
import { TpuClient } from '../request';
import { UntrustedOutputs } from '../untrusted';
import { IOutputsAnswer } from './records';
import { IRecordSource } from './restorer';

/** The longest wait for the page's own connection. */
const TIMEOUT_MS = 10_000;

export class RecordSource implements IRecordSource {
  constructor(
    private readonly _client: TpuClient,
    private readonly _services: ServiceManager.IManager,
    private readonly _untrusted: UntrustedOutputs
  ) {}

  get isUntrusted(): boolean {
    return this._untrusted.isOn;
  }

  hasRecord(kernelName: string): boolean {
    return mayRunOnNode(kernelName, this._services.kernelspecs.specs);
  }

  outputs(kernelId: string, msgIds: readonly string[]): Promise<IOutputsAnswer> {
    return this._client.outputs(kernelId, msgIds);
  }

  async isShared(kernel: Kernel.IKernelConnection): Promise<boolean> {
    await connected(kernel);
    const model = await KernelAPI.getKernelModel(kernel.id, this._services.serverSettings);
    return (model?.connections ?? 0) > 1;
  }
}

/**
 * Wait until this page is connected and therefore counted, but only for a while, because outputs do not depend on it.
 */
function connected(kernel: Kernel.IKernelConnection): Promise<void> {
  return new Promise(resolve => {
    const check = (): void => {
      if (kernel.connectionStatus === 'connected') {
        kernel.connectionStatusChanged.disconnect(check);
        resolve();
      }
    };
    kernel.connectionStatusChanged.connect(check);
    setTimeout(resolve, TIMEOUT_MS);
    check();
  });
}
