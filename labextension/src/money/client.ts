/** The REST routes about money and capacity. */

import {
  IAutostopHistory,
  IAutostopRules,
  ICoverage,
  IGrantMail,
  IKeepRunning,
  INewBudget,
  INewGrant,
  INewQueued,
  INewSearch,
  IQuotasAfter,
  IResults,
  Provisioning
} from '../api.generated';
import { TpuClient } from '../request';
import { HistoryAnswer, HistoryChoice } from '../spend/historymodel';
import { INodeKey, INodeSpec } from '../tokens';
import { IAnswers, Part } from './parts';
import { IDated } from './tokens';

/** A choice in the form, for requests about its cost and quota. */
export interface IChoice extends Pick<INodeSpec, 'zone' | 'accelerator_type'> {
  readonly provisioning: Provisioning;
}

const ROUTES: { readonly [P in Part]: string } = {
  spend: 'spend',
  autostops: 'autostop',
  recovery: 'recovery',
  searches: 'searches',
  grants: 'grants',
  quota: 'quota',
  queue: 'queue',
  cleanup: 'cleanup',
  audit: 'audit?limit=20'
};

export class MoneyClient {
  constructor(private readonly _client: TpuClient) {}

  part<P extends Part>(part: P): Promise<IDated<IAnswers[P]>> {
    return this._client.requestDated<IAnswers[P]>(ROUTES[part]);
  }

  /** Spending over time. */
  spendHistory(choice: HistoryChoice): Promise<IDated<HistoryAnswer>> {
    const route =
      'budget' in choice
        ? `budgets/${encodeURIComponent(choice.budget)}/course`
        : `spend/history?by=${choice.by}&last=${choice.last}`;
    return this._client.requestDated<HistoryAnswer>(route);
  }

  /** What the agent on the node recorded in the last hour. */
  autostopHistory(key: INodeKey): Promise<IDated<IAutostopHistory>> {
    return this._client.requestDated<IAutostopHistory>(`${nodeRoute(key)}/autostop/history`);
  }

  coverage(choice: IChoice): Promise<ICoverage> {
    return this._client.request(`coverage?${queryOf(choice)}`);
  }

  quotaAfter(choice: IChoice): Promise<IQuotasAfter> {
    return this._client.request(`quota/after?${queryOf(choice)}`);
  }

  async keepRunning(key: INodeKey, request: IKeepRunning): Promise<void> {
    await this._send('POST', `${nodeRoute(key)}/extend`, { ...request });
  }

  async setAutostop(key: INodeKey, change: IAutostopRules): Promise<void> {
    await this._send('PUT', `${nodeRoute(key)}/autostop`, { ...change });
  }

  async setRecovery(key: INodeKey, choice: { is_on: boolean }): Promise<void> {
    await this._send('PUT', `${nodeRoute(key)}/recovery`, { ...choice });
  }

  async setBudget(name: string, terms: INewBudget): Promise<void> {
    await this._send('PUT', `budgets/${encodeURIComponent(name)}`, { ...terms });
  }

  async removeBudget(name: string): Promise<void> {
    await this._send('DELETE', `budgets/${encodeURIComponent(name)}`);
  }

  /** Parse the email of a TRC grant; nothing is stored. */
  parseGrant(text: string): Promise<IGrantMail> {
    return this._send('POST', 'grants/parse', { text });
  }

  async saveGrant(name: string, terms: INewGrant): Promise<void> {
    await this._send('PUT', `grants/${encodeURIComponent(name)}`, { ...terms });
  }

  async removeGrant(name: string): Promise<void> {
    await this._send('DELETE', `grants/${encodeURIComponent(name)}`);
  }

  async search(terms: INewSearch): Promise<void> {
    await this._send('POST', 'searches', { ...terms });
  }

  async cancelSearch(searchId: string): Promise<void> {
    await this._send('DELETE', `searches/${encodeURIComponent(searchId)}`);
  }

  async queue(terms: INewQueued): Promise<void> {
    await this._send('POST', 'queue', { ...terms });
  }

  async removeQueued(zone: string, queuedId: string): Promise<void> {
    await this._send('DELETE', `queue/${encodeURIComponent(zone)}/${encodeURIComponent(queuedId)}`);
  }

  cleanup(names: readonly string[]): Promise<IResults> {
    return this._send('POST', 'cleanup', { names });
  }

  stopAll(): Promise<IResults> {
    return this._send('POST', 'stop-all', {});
  }

  private _send<T>(method: string, route: string, body?: object): Promise<T> {
    return this._client.request<T>(route, { method, body: body && JSON.stringify(body) });
  }
}

function queryOf({ zone, accelerator_type, provisioning }: IChoice): string {
  return new URLSearchParams({ zone, accelerator_type, provisioning }).toString();
}

function nodeRoute({ zone, node_id }: INodeKey): string {
  return `nodes/${encodeURIComponent(zone)}/${encodeURIComponent(node_id)}`;
}
