import { act, waitFor } from '@testing-library/react';
import { VDomModel } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import React from 'react';
import { whenIdle } from '../idle';
import type { PanelView } from '../panelview';
import { ITpuModel } from '../tokens';
import { TpuPanel } from '../widget';
import { trans } from './fixtures';

describe('the panel in the sidebar', () => {
  const model = new VDomModel();
  const watched = { isWatched: false };
  const render = jest.fn(() => <p>Nodes</p>);
  const dispose = jest.fn();
  const view = { render, dispose } as unknown as PanelView;
  const load = jest.fn(() => Promise.resolve(view));
  let panel: TpuPanel;

  /** Let the panel and React do what is due. */
  const settle = (what: () => void): Promise<void> =>
    act(async () => {
      what();
      MessageLoop.flush();
      await Promise.resolve();
    });

  const change = (): Promise<void> => settle(() => model.stateChanged.emit());

  const show = (): Promise<void> => settle(() => panel.show());

  const shows = (text: string): Promise<void> =>
    waitFor(() => expect(panel.node.textContent).toBe(text));

  beforeEach(() => {
    [render, dispose, load].forEach(mock => mock.mockClear());
    panel = new TpuPanel(model as unknown as ITpuModel, [watched], load, trans);
    panel.hide();
    Widget.attach(panel, document.body);
  });

  afterEach(() => act(() => panel.dispose()));

  it('has its name at once, and loads what it shows when it is first shown', async () => {
    await change();
    expect(panel.node.getAttribute('aria-label')).toBe('Cloud TPU');
    expect(load).not.toHaveBeenCalled();
    await show();
    await shows('Nodes');
    expect(watched.isWatched).toBe(true);
    panel.hide();
    await show();
    await change();
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('does no work while it is hidden, and shows the current state after that', async () => {
    await panel.load();
    await change();
    expect(render).not.toHaveBeenCalled();
    await show();
    await shows('Nodes');
    panel.hide();
    render.mockClear();
    await change();
    expect(render).not.toHaveBeenCalled();
    render.mockReturnValueOnce(<p>Other nodes</p>);
    await show();
    await shows('Other nodes');
  });

  it('says so if it could not be loaded, and tries again', async () => {
    const lost = load.mockRejectedValue(new Error('no connection'));
    await show();
    await change();
    await shows('TPU: no connection to the server');
    lost.mockResolvedValue(view);
    await change();
    await shows('Nodes');
  });

  it('lets go of what it shows, also if that is loaded too late', async () => {
    const loading = panel.load();
    panel.dispose();
    await loading;
    expect(dispose).toHaveBeenCalledTimes(1);
  });
});

describe('work that can wait', () => {
  it('begins when the layout is restored and the page is idle, in browsers that know idle time or not', async () => {
    const work = jest.fn();
    let restore = (): void => undefined;
    const restored = new Promise<void>(resolve => (restore = resolve));
    whenIdle({ restored }, work);
    await Promise.resolve();
    expect(work).not.toHaveBeenCalled();
    restore();
    await waitFor(() => expect(work).toHaveBeenCalledTimes(1));
    window.requestIdleCallback = jest.fn((callback: IdleRequestCallback) =>
      window.setTimeout(callback)
    );
    whenIdle({ restored }, work);
    await waitFor(() => expect(work).toHaveBeenCalledTimes(2));
    // a slow computer may need seconds from the restored layout to the first pause
    expect(window.requestIdleCallback).toHaveBeenCalledWith(work, { timeout: 5_000 });
  });
});
