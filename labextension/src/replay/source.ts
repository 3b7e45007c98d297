/** The REST routes of lost cells. */

import { IReplay } from '../api.generated';
import { TpuClient } from '../request';
import { IReplaySource } from './replay';

export class ReplaySource implements IReplaySource {
  constructor(private readonly _client: TpuClient) {}

  replay(kernelId: string): Promise<IReplay> {
    return this._client.request(routeOf(kernelId));
  }

  async settle(kernelId: string): Promise<void> {
    await this._client.request(routeOf(kernelId), { method: 'DELETE' });
  }
}

function routeOf(kernelId: string): string {
  return `kernels/${encodeURIComponent(kernelId)}/replay`;
}
