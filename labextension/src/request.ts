/** The REST client, which returns records or typed errors. The only module that sends requests. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IIntent, ILink, INodeList, IOffers, IStatus } from './api.generated';
import { ITranslatable, translated } from './messages/problems';
import { IOutputsAnswer } from './restore/records';
import { IDatedList, INodeKey, INodeSpec, IProblem } from './tokens';

const BASE = 'jupyter-tpu/v1';

/** An error response of the server extension or the Jupyter server, or a request without any response. */
export class TpuRequestError extends Error {
  constructor(readonly problem: IProblem) {
    super(problem.message);
    this.name = 'TpuRequestError';
  }
}

/** The Jupyter server is running without this project's server extension. */
export class ServerExtensionMissing extends TpuRequestError {}

/** The error to show for any thrown value. */
export function problemOf(error: unknown): IProblem {
  if (error instanceof TpuRequestError) {
    return error.problem;
  }
  return asProblem({ message: error instanceof Error ? error.message : String(error) });
}

/** Fill in fields that a proxy or an older server left out. */
export function asProblem(data: Partial<IProblem>): IProblem {
  const texts = { message: '', exists: '', hint: '', raw: '' };
  return { code: 'tpu_error', ...texts, templates: {}, arguments: {}, actions: [], ...data };
}

/**
 * The routes of the server extension.
 *
 *  All errors in a response are translated here, so no other module has to know that the server's texts are English.
 */
export class TpuClient {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _trans: TranslationBundle = nullTranslator.load('jupyter_tpu')
  ) {}

  /** @throws ServerExtensionMissing when the route does not exist. */
  async status(): Promise<IStatus> {
    try {
      return await this._json<IStatus>('status');
    } catch (error) {
      throw isPlainNotFound(error) ? new ServerExtensionMissing(problemOf(error)) : error;
    }
  }

  /** The nodes as the server last listed them. */
  nodes(): Promise<IDatedList> {
    return this._list('nodes');
  }

  /** The nodes, after the server has asked the cloud. */
  refreshNodes(): Promise<IDatedList> {
    return this._list('refresh', { method: 'POST' });
  }

  offers(): Promise<IOffers> {
    return this._json('offers');
  }

  createNode(spec: INodeSpec): Promise<IIntent> {
    return this._json('nodes', { method: 'POST', body: JSON.stringify(spec) });
  }

  deleteNode(key: INodeKey): Promise<IIntent> {
    return this._json(nodeRoute(key), { method: 'DELETE' });
  }

  stopNode(key: INodeKey): Promise<IIntent> {
    return this._json(`${nodeRoute(key)}/stop`, { method: 'POST' });
  }

  startNode(key: INodeKey): Promise<IIntent> {
    return this._json(`${nodeRoute(key)}/start`, { method: 'POST' });
  }

  async dismissIntent(intentId: string): Promise<void> {
    await this._fetch(`intents/${encodeURIComponent(intentId)}`, { method: 'DELETE' });
  }

  /** The current connection of a kernel to its worker. */
  link(kernelId: string): Promise<ILink> {
    return this._json(`${kernelRoute(kernelId)}/link`);
  }

  /** The recorded requests of a kernel: all of them, or only those with the given ids. */
  outputs(kernelId: string, msgIds: readonly string[]): Promise<IOutputsAnswer> {
    const query = msgIds.map(msgId => `msg_id=${encodeURIComponent(msgId)}`).join('&');
    return this._json(`${kernelRoute(kernelId)}/outputs${query && `?${query}`}`);
  }

  /** A response of the emulated cloud's control API, whose routes exist only where the cloud is emulated. */
  emulator<T>(part: string, init: RequestInit = {}): Promise<T> {
    return this._json(`emulator/${part}`, init);
  }

  /** URL of the complete text that a request printed. */
  textUrl(kernelId: string, msgId: string, query = ''): string {
    const route = `${kernelRoute(kernelId)}/requests/${encodeURIComponent(msgId)}/text${query}`;
    return URLExt.join(this._settings.baseUrl, BASE, route);
  }

  /** The JSON response of any route; undefined if it has no body. */
  request<T>(route: string, init: RequestInit = {}): Promise<T> {
    return this._json(route, init);
  }

  /** The response of any route with the server's time. */
  async requestDated<T>(
    route: string
  ): Promise<{ data: T; server_s: number; received_ms: number }> {
    const response = await this._fetch(route);
    const data = await this._read<T>(response);
    return { data, server_s: serverTime(response), received_ms: Date.now() };
  }

  private async _list(route: string, init: RequestInit = {}): Promise<IDatedList> {
    const response = await this._fetch(route, init);
    const list = await this._read<INodeList>(response);
    return { ...list, age_s: ageOf(list, response), received_ms: Date.now() };
  }

  private async _json<T>(route: string, init: RequestInit = {}): Promise<T> {
    const response = await this._fetch(route, init);
    return response.status === 204 ? (undefined as T) : this._read<T>(response);
  }

  private async _fetch(route: string, init: RequestInit = {}): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, BASE, route);
    const response = await this._send(url, init);
    if (!response.ok) {
      throw new TpuRequestError(await readProblem(response, this._trans));
    }
    return response;
  }

  private async _read<T>(response: Response): Promise<T> {
    return parse(await response.text(), this._trans) as T;
  }

  private async _send(url: string, init: RequestInit): Promise<Response> {
    try {
      return await ServerConnection.makeRequest(url, init, this._settings);
    } catch (error) {
      throw new TpuRequestError(
        asProblem({ code: 'server_unreachable', raw: error instanceof Error ? error.message : '' })
      );
    }
  }
}

function nodeRoute({ zone, node_id }: INodeKey): string {
  return `nodes/${encodeURIComponent(zone)}/${encodeURIComponent(node_id)}`;
}

function kernelRoute(kernelId: string): string {
  return `kernels/${encodeURIComponent(kernelId)}`;
}

/** The age of a list by the server's clock, because the browser's may be wrong. */
function ageOf({ as_of }: INodeList, response: Response): number | null {
  if (as_of === null) {
    return null;
  }
  return Math.max(0, serverTime(response) - as_of);
}

/** Seconds since the epoch by the server's clock; the browser's if there is no Date header. */
function serverTime(response: Response): number {
  return (Date.parse(response.headers.get('Date') ?? '') || Date.now()) / 1000;
}

async function readProblem(response: Response, trans: TranslationBundle): Promise<IProblem> {
  const text = await response.text();
  const body = parseObject(text, trans);
  if (isObject(body.error)) {
    return asProblem(body.error);
  }
  const message = typeof body.message === 'string' ? body.message : response.statusText;
  return asProblem({ code: `http_${response.status}`, message, raw: text.slice(0, 10_000) });
}

/** Parse a response and translate the errors in it. */
function parse(text: string, trans: TranslationBundle): unknown {
  // A reviver is slow, and most responses contain no error.
  return text.includes('"templates"')
    ? JSON.parse(text, (_, value: unknown) =>
        isTranslatable(value) ? translated(value, trans) : value
      )
    : JSON.parse(text);
}

function isTranslatable(value: unknown): value is ITranslatable {
  return isObject(value) && isObject(value.templates) && isObject(value.arguments);
}

function parseObject(text: string, trans: TranslationBundle): Record<string, unknown> {
  try {
    const value = parse(text, trans);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isPlainNotFound(error: unknown): boolean {
  return error instanceof TpuRequestError && error.problem.code === 'http_404';
}
