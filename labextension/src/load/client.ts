/** The REST routes about the load of a node. */

import { IMetrics, IReleaseRequest, IReleaseResult } from '../api.generated';
import { IDated } from '../money/tokens';
import { TpuClient } from '../request';
import { INodeKey } from '../tokens';

/** The span of history to request, and its resolution. */
export interface ISpan {
  readonly history_s: number;
  readonly points: number;
}

export class LoadClient {
  constructor(private readonly _client: TpuClient) {}

  /** The metrics of all workers, with their history if a span is given. */
  metrics(key: INodeKey, span: ISpan | null = null): Promise<IDated<IMetrics>> {
    const query = span ? `?history_s=${span.history_s}&points=${span.points}` : '';
    return this._client.requestDated(`${nodeRoute(key)}/metrics${query}`);
  }

  release(key: INodeKey, terms: IReleaseRequest): Promise<IReleaseResult> {
    const body = JSON.stringify(terms);
    return this._client.request(`${nodeRoute(key)}/release`, { method: 'POST', body });
  }
}

function nodeRoute({ zone, node_id }: INodeKey): string {
  return `nodes/${encodeURIComponent(zone)}/${encodeURIComponent(node_id)}`;
}
