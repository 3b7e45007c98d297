import { ServerConnection } from '@jupyterlab/services';
import { act, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { ITerminal } from '../api.generated';
import { terminalSettings } from '../terminals/connection';
import { NodeTerminals } from '../terminals/model';
import { TerminalList } from '../terminals/terminallist';
import { INodeKey } from '../tokens';
import { node, trans } from './fixtures';

const KEY = { zone: 'us-central1-a', node_id: 'my-node' };

/** A socket that delivers what a test says. */
class Socket extends EventTarget {
  constructor(readonly url: string) {
    super();
  }

  close(): void {
    this.isClosed = true;
  }

  receive(...message: unknown[]): void {
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(message) }));
  }

  isClosed = false;
}

/** An observer for which everything is in sight. */
class AllInSight {
  observe = jest.fn();
  disconnect = jest.fn();
}

window.IntersectionObserver = AllInSight as unknown as typeof IntersectionObserver;

describe('the connection of a terminal', () => {
  const settings = {
    baseUrl: 'http://localhost:8888/',
    wsUrl: 'ws://localhost:8888/',
    WebSocket: Socket
  } as unknown as ServerConnection.ISettings;
  const URL = 'ws://localhost:8888/terminals/websocket/a';

  it('leads to the node', () => {
    const { baseUrl, wsUrl } = terminalSettings(settings, KEY);
    expect(baseUrl).toBe('http://localhost:8888/jupyter-tpu/v1/nodes/us-central1-a/my-node/');
    expect(wsUrl).toBe('ws://localhost:8888/jupyter-tpu/v1/nodes/us-central1-a/my-node/');
  });

  it('continues after what the page has got, and not after what it has dropped', () => {
    const Continuing = terminalSettings(settings, KEY).WebSocket as unknown as typeof Socket;
    const first = new Continuing(URL);
    first.receive('setup', {});
    first.receive('stdout', 'a', 7);
    first.close();
    first.receive('stdout', 'b', 8);
    expect(first.isClosed).toBe(true);
    expect([first.url, new Continuing(URL).url]).toEqual([URL, `${URL}?from=7`]);
    expect(new Continuing(`${URL}?token=t`).url).toBe(`${URL}?token=t&from=7`);
  });

  it('keeps the position of each terminal apart', () => {
    const one = terminalSettings(settings, KEY).WebSocket as unknown as typeof Socket;
    new one(URL).receive('stdout', 'a', 7);
    const other = terminalSettings(settings, KEY).WebSocket as unknown as typeof Socket;
    expect(new other(URL).url).toBe(URL);
  });
});

describe('the list of terminals', () => {
  const open: ITerminal[] = [
    { name: 'a', command: '', started_at: 1_790_000_000 },
    { name: 'b', command: 'htop', started_at: null }
  ];
  const onShow = jest.fn<void, [INodeKey, string]>();
  const onShutDown = jest.fn<void, [INodeKey, string]>();

  async function show(answer: Promise<unknown>): Promise<void> {
    const terminals = new NodeTerminals({ request: () => answer as Promise<never> });
    await act(async () => {
      render(
        <TerminalList
          node={node('my-node')}
          {...{ terminals, trans }}
          actions={{ onShow, onShutDown }}
        />
      );
      await answer.catch(() => null);
    });
  }

  it('names the command in each, and shows or shuts it down', async () => {
    await show(Promise.resolve(open));
    fireEvent.click(screen.getByText('Terminal'));
    fireEvent.click(screen.getByRole('button', { name: 'Shut down: Terminal: htop' }));
    expect(onShow.mock.lastCall?.[1]).toBe('a');
    expect(onShutDown.mock.lastCall?.[1]).toBe('b');
    expect(screen.getAllByRole('listitem')).toHaveLength(2);
  });

  it('takes no space without terminals', async () => {
    await show(Promise.resolve([]));
    expect(screen.queryByRole('list')).toBeNull();
  });
});
