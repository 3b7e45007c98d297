/** Where restored outputs come from: the server half and Jupyter's own routes. */

import { KernelAPI, ServiceManager } from '@jupyterlab/services';
import { TpuClient } from '../request';
import { mayRunOnNode } from '../nodekernel';
import { IOutputsAnswer } from './records';
import { IRecordSource } from './restorer';

export class RecordSource implements IRecordSource {
  constructor(
    private readonly _client: TpuClient,
    private readonly _services: ServiceManager.IManager
  ) {}

  keeps(kernelName: string): boolean {
    return mayRunOnNode(kernelName, this._services.kernelspecs.specs);
  }

  outputs(kernelId: string, msgIds: readonly string[]): Promise<IOutputsAnswer> {
    return this._client.outputs(kernelId, msgIds);
  }

  async connections(kernelId: string): Promise<number> {
    const model = await KernelAPI.getKernelModel(kernelId, this._services.serverSettings);
    return model?.connections ?? 0;
  }
}
