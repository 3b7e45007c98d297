/** Where it is told what was lost: the server half. */

import { TpuClient } from '../request';
import { IReplay } from './records';
import { IReplaySource } from './replay';

export class ReplaySource implements IReplaySource {
  constructor(private readonly _client: TpuClient) {}

  replay(kernelId: string): Promise<IReplay> {
    return this._client.ask(routeOf(kernelId));
  }

  async settle(kernelId: string): Promise<void> {
    await this._client.ask(routeOf(kernelId), { method: 'DELETE' });
  }
}

function routeOf(kernelId: string): string {
  return `kernels/${encodeURIComponent(kernelId)}/replay`;
}
