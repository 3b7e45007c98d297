import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Kernel } from '@jupyterlab/services';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import React from 'react';
import { Displays } from '../restore/displays';
import { Notice } from '../restore/notice';
import { Run } from '../restore/run';
import { UnplacedOutputs } from '../restore/unplaced';
import { trans } from './fixtures';
import { request, text } from './records';

afterEach(cleanup);

const HOSTILE = '<img src=x onerror="window.pwned = true">';

describe('the notice of restored outputs', () => {
  const nothing = { cells: 0, unplaced: 0, shortened: 0, problem: '', trans, onShow: jest.fn() };

  it('is empty when nothing was restored', () => {
    const { container } = render(<Notice {...nothing} />);
    expect(container.textContent).toBe('');
  });

  it('says how many cells were restored, and leaves after a while', () => {
    jest.useFakeTimers();
    const { container } = render(<Notice {...nothing} cells={3} />);
    expect(container.textContent).toBe('3 cells restored');
    React.act(() => jest.advanceTimersByTime(60_000));
    jest.useRealTimers();
    expect(container.textContent).toBe('');
  });

  it('offers outputs that are not in the notebook', () => {
    const onShow = jest.fn();
    render(<Notice {...nothing} unplaced={2} shortened={1} onShow={onShow} />);
    fireEvent.click(screen.getByRole('button'));
    expect(screen.getByRole('button').textContent).toBe(
      '2 outputs without a cell · 1 output shortened'
    );
    expect(onShow).toHaveBeenCalled();
  });

  it('says that outputs are not restored, and why', () => {
    render(<Notice {...nothing} cells={3} problem="The link is down." />);
    expect(screen.getByRole('status').textContent).toBe('Outputs not restored yet');
    expect(screen.getByRole('status').title).toBe('The link is down.');
  });
});

describe('the list of outputs that are not in the notebook', () => {
  const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const actions = {
    onCopy: jest.fn(),
    onAdd: jest.fn(),
    textUrl: (id: string, query = '') => `/text/${id}${query}`
  };

  async function show(...requests: ReturnType<typeof request>[]): Promise<HTMLElement> {
    const kernel = {} as Kernel.IKernelConnection;
    const unplaced = requests.map(one => new Run(one, 'gone', 1, kernel, new Displays()));
    const shortened = [request('big', 'a', { code: 'big()' })];
    const list = new UnplacedOutputs({ unplaced, shortened }, actions, rendermime, trans);
    Widget.attach(list, document.body);
    MessageLoop.flush();
    await screen.findByText('Open full text');
    return list.node;
  }

  afterEach(() => document.body.replaceChildren());

  it('shows the code and what came of it, to be copied or added', async () => {
    const node = await show(request('1', 'gone', { code: 'x = 1', outputs: [text('one\n')] }));
    expect(node.querySelector('.jp-OutputArea')?.textContent).toContain('one');
    fireEvent.click(screen.getByText('Copy code'));
    expect(actions.onCopy).toHaveBeenCalledWith('x = 1');
    fireEvent.click(screen.getByText('Add as cell'));
    expect(actions.onAdd).toHaveBeenCalledWith('1');
    screen.getByText('Added at the end');
    screen.getByText(/^Stored only on the node, and in this page\./);
  });

  it('leads to the whole text of what is shortened', async () => {
    await show();
    screen.getByText(/^The full text is stored only on the node\./);
    expect(screen.getByText('Open full text').getAttribute('href')).toBe('/text/big');
    expect(screen.getByText('Download').getAttribute('href')).toBe('/text/big?download=1');
  });

  it('draws outputs as those of an untrusted notebook', async () => {
    const html = { output_type: 'display_data', data: { 'text/html': HOSTILE }, metadata: {} };
    const node = await show(
      request('1', 'gone', { code: HOSTILE, outputs: [html, text(HOSTILE)] })
    );
    expect(node.querySelector('[onerror]')).toBeNull();
    expect(node.querySelector('.jp-tpu-Elsewhere-code pre')?.textContent).toBe(HOSTILE);
  });
});
