/** The routes of the server half that are about money, and about getting a node. */

import { TpuClient } from '../request';
import { INodeKey, INodeSpec, Provisioning } from '../tokens';
import { ICoverage, IGrantTerms, IParsedMail } from './grantrecords';
import { IBrakesPast, IPastAnswer, PastChoice } from './pastrecords';
import {
  IAnswers,
  IBrakeTerms,
  IBudgetTerms,
  IKeep,
  IQuotasAfter,
  IQueueTerms,
  ISearchTerms,
  ISweepResults,
  Part
} from './records';
import { IDated } from './tokens';

/** What a choice of a node is asked about. */
export interface IChoice extends Pick<INodeSpec, 'zone' | 'accelerator_type'> {
  readonly provisioning: Provisioning;
}

const ROUTES: { readonly [P in Part]: string } = {
  spend: 'spend',
  brakes: 'autostop',
  recovery: 'recovery',
  searches: 'searches',
  grants: 'grants',
  quota: 'quota',
  queue: 'queue',
  sweep: 'cleanup',
  audit: 'audit?limit=20'
};

export class MoneyClient {
  constructor(private readonly _client: TpuClient) {}

  part<P extends Part>(part: P): Promise<IDated<IAnswers[P]>> {
    return this._client.askDated<IAnswers[P]>(ROUTES[part]);
  }

  /** Money over time. */
  past(choice: PastChoice): Promise<IDated<IPastAnswer>> {
    const route =
      'budget' in choice
        ? `budgets/${encodeURIComponent(choice.budget)}/course`
        : `spend/history?by=${choice.by}&last=${choice.last}`;
    return this._client.askDated<IPastAnswer>(route);
  }

  /** What the guard of a node saw in the last hour. */
  brakesPast(key: INodeKey): Promise<IDated<IBrakesPast>> {
    return this._client.askDated<IBrakesPast>(`${nodeRoute(key)}/autostop/history`);
  }

  coverage(choice: IChoice): Promise<ICoverage> {
    return this._client.ask(`coverage?${queryOf(choice)}`);
  }

  quotaAfter(choice: IChoice): Promise<IQuotasAfter> {
    return this._client.ask(`quota/after?${queryOf(choice)}`);
  }

  async keep(key: INodeKey, keep: IKeep): Promise<void> {
    await this._send('POST', `${nodeRoute(key)}/extend`, { ...keep });
  }

  async setBrakes(key: INodeKey, change: IBrakeTerms): Promise<void> {
    await this._send('PUT', `${nodeRoute(key)}/autostop`, { ...change });
  }

  async setRecovery(key: INodeKey, choice: { is_on: boolean }): Promise<void> {
    await this._send('PUT', `${nodeRoute(key)}/recovery`, { ...choice });
  }

  async setBudget(name: string, terms: IBudgetTerms): Promise<void> {
    await this._send('PUT', `budgets/${encodeURIComponent(name)}`, { ...terms });
  }

  async removeBudget(name: string): Promise<void> {
    await this._send('DELETE', `budgets/${encodeURIComponent(name)}`);
  }

  /** Reads a mail; nothing is kept. */
  parseGrant(text: string): Promise<IParsedMail> {
    return this._send('POST', 'grants/parse', { text });
  }

  async saveGrant(name: string, terms: IGrantTerms): Promise<void> {
    await this._send('PUT', `grants/${encodeURIComponent(name)}`, { ...terms });
  }

  async removeGrant(name: string): Promise<void> {
    await this._send('DELETE', `grants/${encodeURIComponent(name)}`);
  }

  async search(terms: ISearchTerms): Promise<void> {
    await this._send('POST', 'searches', { ...terms });
  }

  async cancelSearch(searchId: string): Promise<void> {
    await this._send('DELETE', `searches/${encodeURIComponent(searchId)}`);
  }

  async queue(terms: IQueueTerms): Promise<void> {
    await this._send('POST', 'queue', { ...terms });
  }

  async removeQueued(zone: string, queuedId: string): Promise<void> {
    await this._send('DELETE', `queue/${encodeURIComponent(zone)}/${encodeURIComponent(queuedId)}`);
  }

  sweep(names: readonly string[]): Promise<ISweepResults> {
    return this._send('POST', 'cleanup', { names });
  }

  panic(): Promise<ISweepResults> {
    return this._send('POST', 'stop-all', {});
  }

  private _send<T>(method: string, route: string, body?: object): Promise<T> {
    return this._client.ask<T>(route, { method, body: body && JSON.stringify(body) });
  }
}

function queryOf({ zone, accelerator_type, provisioning }: IChoice): string {
  return new URLSearchParams({ zone, accelerator_type, provisioning }).toString();
}

function nodeRoute({ zone, node_id }: INodeKey): string {
  return `nodes/${encodeURIComponent(zone)}/${encodeURIComponent(node_id)}`;
}
