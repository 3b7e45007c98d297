/** A server that answers what a test tells it to. */

import { ServerConnection } from '@jupyterlab/services';
import { ISignal } from '@lumino/signaling';

export interface IAsked {
  readonly method: string;
  readonly route: string;
  readonly body: unknown;
}

type Answer = (asked: IAsked) => Response | Promise<Response>;

export function reply(body: unknown, status = 200, headers: HeadersInit = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

/** Resolves when `isSo`, which is looked at now and whenever a model emits `signal`. */
export function until(signal: ISignal<unknown, unknown>, isSo: () => boolean): Promise<void> {
  return new Promise(resolve => {
    const check = (): void => {
      if (isSo()) {
        signal.disconnect(check);
        resolve();
      }
    };
    signal.connect(check);
    check();
  });
}

export class Server {
  readonly asked: IAsked[] = [];
  /** The arguments of each of them. */
  readonly queries: URLSearchParams[] = [];
  /** Answers by method and route, such as `GET nodes`. */
  readonly answers: { [what: string]: Answer } = {};

  get settings(): ServerConnection.ISettings {
    return ServerConnection.makeSettings({
      baseUrl: 'http://localhost/user/me/',
      fetch: (input, init) => this._answer(new Request(input, init))
    });
  }

  private async _answer(request: Request): Promise<Response> {
    const route = new URL(request.url).pathname.replace('/user/me/jupyter-tpu/v1/', '');
    const text = await request.text();
    const asked = {
      method: request.method,
      route,
      body: text ? (JSON.parse(text) as unknown) : null
    };
    this.asked.push(asked);
    this.queries.push(new URL(request.url).searchParams);
    const answer = this.answers[`${asked.method} ${route}`];
    return answer ? answer(asked) : reply({ message: 'Not Found' }, 404);
  }
}
