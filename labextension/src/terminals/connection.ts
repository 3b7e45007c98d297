/** Connections of JupyterLab's terminals to nodes: they continue where they stopped. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { INodeKey } from '../tokens';
import { terminalsRoute } from './model';

/**
 * The settings with which JupyterLab's own client finds one terminal of a node.
 *
 *  They remember what the terminal has shown, so each connection needs its own.
 */
export function terminalSettings(
  settings: ServerConnection.ISettings,
  key: INodeKey
): ServerConnection.ISettings {
  const route = `jupyter-tpu/v1/${terminalsRoute(key)}/`;
  return {
    ...settings,
    baseUrl: URLExt.join(settings.baseUrl, route),
    wsUrl: URLExt.join(settings.wsUrl, route),
    WebSocket: continuing(settings.WebSocket)
  };
}

/** A class of WebSockets of one terminal: each tells the server what the ones before it have received. */
export function continuing(base: typeof WebSocket): typeof WebSocket {
  let seen: number | null = null;
  return class extends base {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(withParameter(String(url), seen), protocols);
      this.addEventListener('message', ({ data }) => {
        const [kind, , seq] = JSON.parse(data as string) as unknown[];
        // JupyterLab ignores what arrives after it has closed the socket
        if (kind === 'stdout' && typeof seq === 'number' && !this._isClosed) {
          seen = seq;
        }
      });
    }

    close(code?: number, reason?: string): void {
      this._isClosed = true;
      super.close(code, reason);
    }

    private _isClosed = false;
  };
}

function withParameter(url: string, seen: number | null): string {
  return seen === null ? url : `${url}${url.includes('?') ? '&' : '?'}from=${seen}`;
}
