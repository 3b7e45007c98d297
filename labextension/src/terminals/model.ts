/** The terminals of each node, and requests about them. */

import { ISignal, Signal } from '@lumino/signaling';
import { ITerminal } from '../api.generated';
import { keyOf } from '../fleet';
import { TpuClient } from '../request';
import { INodeKey } from '../tokens';
import { INodeTerminals } from './tokens';

/** The path of a node's terminals, which JupyterLab's own client appends to a server's URL. */
export function terminalsRoute({ zone, node_id }: INodeKey): string {
  return `nodes/${encodeURIComponent(zone)}/${encodeURIComponent(node_id)}`;
}

export class NodeTerminals implements INodeTerminals {
  constructor(private readonly _client: Pick<TpuClient, 'request'>) {}

  get changed(): ISignal<INodeTerminals, void> {
    return this._changed;
  }

  of(key: INodeKey): readonly ITerminal[] {
    return this._terminals.get(keyOf(key)) ?? [];
  }

  async refresh(key: INodeKey): Promise<void> {
    const route = `${terminalsRoute(key)}/api/terminals`;
    const terminals = await this._client.request<ITerminal[]>(route).catch(() => null);
    if (terminals && JSON.stringify(terminals) !== JSON.stringify(this.of(key))) {
      this._terminals.set(keyOf(key), terminals);
      this._changed.emit();
    }
  }

  /** Start a shell on a node. */
  async open(key: INodeKey): Promise<ITerminal> {
    const route = `${terminalsRoute(key)}/api/terminals`;
    const terminal = await this._client.request<ITerminal>(route, { method: 'POST' });
    void this.refresh(key);
    return terminal;
  }

  /** End a terminal's shell and its jobs. */
  async shutDown(key: INodeKey, name: string): Promise<void> {
    const route = `${terminalsRoute(key)}/api/terminals/${encodeURIComponent(name)}`;
    try {
      await this._client.request(route, { method: 'DELETE' });
    } finally {
      void this.refresh(key);
    }
  }

  private readonly _terminals = new Map<string, readonly ITerminal[]>();
  private readonly _changed = new Signal<this, void>(this);
}
