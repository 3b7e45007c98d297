import { Signal } from '@lumino/signaling';
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { IMetrics } from '../api.generated';
import { IHistoryView } from '../load/plot';
import { loadRenderers } from '../load/renderer';
import { ISeries, NO_SERIES } from '../load/series';
import { ILoadModel, INodeLoad } from '../load/tokens';
import { ILoadActions } from '../load/view/processes';
import { IPart } from '../money/tokens';
import { TpuRequestError } from '../request';
import { IProblem } from '../tokens';
import { node, STOCKOUT, trans } from './fixtures';
import { core, GIB, holder, metrics, NOW, sample, v3Sample, worker } from './loadfixtures';

// the ages that are shown do not depend on how long a test takes
beforeEach(() => void jest.spyOn(Date, 'now').mockReturnValue(1_700_000_000_000));
afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

/** A browser's window in which everything is in sight; jsdom lays nothing out. */
class AllInSight {
  constructor(private readonly _tell: (entries: { isIntersecting: boolean }[]) => void) {}

  observe(): void {
    this._tell([{ isIntersecting: true }]);
  }

  disconnect(): void {}
}

window.IntersectionObserver = AllInSight as unknown as typeof IntersectionObserver;

const HOSTILE = '<img src=x onerror="alert(1)">';

/** A load that says what a test tells it to. */
class Load {
  looks = 0;
  part: IPart<IMetrics> = { dated: null, problem: null };
  series: ISeries = NO_SERIES;
  isReleasing = false;
  readonly changed = new Signal<this, void>(this);

  subscribe(): { isDisposed: boolean; dispose: () => void } {
    this.looks += 1;
    return { isDisposed: false, dispose: () => (this.looks -= 1) };
  }

  tell(data: IMetrics | null, problem: IProblem | null = null): void {
    const dated = data && { data, server_s: NOW, received_ms: Date.now() };
    this.part = { dated, problem };
    act(() => this.changed.emit());
  }
}

interface IShown {
  load: Load;
  actions: jest.Mocked<ILoadActions>;
  /** What was drawn by the chart. */
  drawn: ISeries[];
}

function show(rest: Parameters<typeof node>[1] = {}): IShown {
  const load = new Load();
  const actions = { onRelease: jest.fn().mockResolvedValue('The chips are free.') };
  const drawn: ISeries[] = [];
  const plot = {
    show: ({ series }: IHistoryView) => void drawn.push(series),
    dispose: () => undefined
  };
  const model = { of: () => load as unknown as INodeLoad } as unknown as ILoadModel;
  const faces = loadRenderers(model, actions, () => Promise.resolve(plot), trans);
  render(<div>{faces.section(node('my-node', rest))}</div>);
  return { load, actions, drawn };
}

/** Open the section and let it show something. */
async function shown(data: IMetrics): Promise<IShown> {
  const all = show();
  await click('Load');
  all.load.tell(data);
  await act(() => Promise.resolve());
  return all;
}

function click(name: string | RegExp): Promise<void> {
  return act(() => Promise.resolve(void fireEvent.click(screen.getByRole('button', { name }))));
}

describe('the load of a node', () => {
  it('is looked at only while its section is open', async () => {
    const { load } = show();
    expect(load.looks).toBe(0);
    await click('Load');
    expect(load.looks).toBe(1);
    screen.getByText('Loading…');
    await click('Load');
    expect(load.looks).toBe(0);
  });

  it('is looked at no more when its row is gone', async () => {
    const { load } = show();
    await click('Load');
    cleanup();
    expect(load.looks).toBe(0);
  });

  it('is summed up beside its title, and in a sentence', async () => {
    await shown(metrics(worker(0)));
    screen.getByText('duty 30 % · HBM 25 %');
    screen.getByText('Duty 30.0 % on average · busiest chip 60.0 % · HBM 16.0 of 64 GiB');
  });

  it('has a bar for each chip, with its number', async () => {
    await shown(metrics(worker(0)));
    const chip = screen.getByRole('group', { name: 'chip 3' });
    const duty = within(chip).getByRole('meter', { name: 'Duty of chip 3' });
    expect(duty.getAttribute('aria-valuetext')).toBe('60.0 %');
    within(chip).getByText('4.0 of 16 GiB');
    within(chip).getByText('Queue 0');
  });

  it('calls the duty that two cores share that of the chip', async () => {
    await shown(metrics(worker(0, { sample: v3Sample() })));
    const chip = screen.getByRole('group', { name: 'chip 0' });
    within(chip).getByText('Chip duty');
    within(chip).getByRole('meter', { name: 'HBM of core 0' });
    expect(within(chip).queryByRole('meter', { name: 'HBM of core 1' })).toBeNull();
    expect(within(chip).getByText('unknown').closest('[title]')?.getAttribute('title')).toBe(
      'libtpu gave -1'
    );
  });

  it('says what is not known, and why', async () => {
    await shown(metrics(worker(0)));
    const list = screen.getByRole('list', { name: 'Unknown values' });
    within(list).getByText("TensorCore: unknown (needs libtpu's SDK on the worker)");
  });

  it('of chips that nobody holds is no error', async () => {
    const idle = sample({ state: 'idle', reason: 'no process is using the chips', cores: [] });
    await shown(metrics(worker(0, { sample: { ...idle, chips: [] } })));
    screen.getByText('idle');
    screen.getByText(/^Idle: no process/);
    screen.getByRole('meter', { name: 'CPU of host' });
  });

  it('that cannot be measured is unknown, with the reason', async () => {
    const reason = 'nobody answers on port 8431';
    const blind = sample({ state: 'unknown', reason, chips: [], cores: [] });
    await shown(metrics(worker(0, { sample: blind })));
    screen.getByText(`Unknown: ${reason}`);
  });

  it('of a worker that does not answer has an error and the age of its last numbers', async () => {
    await shown(metrics(worker(0, { as_of: NOW - 40, error: STOCKOUT })));
    screen.getByText(`${STOCKOUT.message} ${STOCKOUT.hint}`);
    screen.getByText('Last updated 40 s ago');
  });

  it('of a server that does not answer keeps the last numbers and says of when they are', async () => {
    const { load } = await shown(metrics(worker(0)));
    load.tell({ ...metrics(worker(0)), as_of: NOW - 60 }, STOCKOUT);
    screen.getByText('Last updated 60 s ago');
    screen.getByRole('group', { name: 'chip 3' });
    expect(screen.queryByText('duty 30 % · HBM 25 %')).toBeNull();
  });

  it('has a line for each of many workers, which open one by one or all at once', async () => {
    await shown(metrics(worker(0), worker(1), worker(2)));
    const line = screen.getByRole('button', { name: /^Worker 1\b.*duty 30 %/ });
    expect(screen.queryByRole('meter')).toBeNull();
    fireEvent.click(line);
    screen.getByRole('meter', { name: 'Duty of chip 3 of worker 1' });
    await click('Expand all workers');
    expect(screen.getAllByRole('meter', { name: /^CPU of host/ })).toHaveLength(3);
    await click('Collapse all workers');
    expect(screen.queryByRole('meter')).toBeNull();
  });

  it('shows what workers say as text', async () => {
    const { load } = await shown(
      metrics(
        worker(0, {
          hostname: HOSTILE,
          sample: sample({
            holders: [holder({ command: HOSTILE, notebook: HOSTILE, user: HOSTILE })],
            unknown: { tensorcore_percent: HOSTILE }
          })
        })
      )
    );
    load.tell(metrics(worker(0, { error: { ...STOCKOUT, message: HOSTILE } })));
    expect(document.querySelector('img')).toBeNull();
  });

  it('warns of memory that is nearly full, not of chips that work', async () => {
    const full = sample({
      chips: [{ chip: 0, duty_percent: 100 }],
      cores: [core(0, { hbm_used_bytes: 15.5 * GIB })]
    });
    await shown(metrics(worker(0, { sample: full })));
    const near = [...document.querySelectorAll('.jp-mod-near')];
    expect(near.map(bar => bar.getAttribute('aria-label'))).toEqual(['HBM of chip 0']);
  });
});

describe('the past of a node', () => {
  const series = {
    at: [NOW - 600, NOW - 10, NOW],
    duty: [10, 30, 20],
    busiest: [null, null, null],
    hbm: [25, 25, null],
    cpu: [1, 2, 3]
  };

  it('is a chart, and the same in words', async () => {
    const { load, drawn } = show();
    await click('Load');
    load.series = series;
    load.tell(metrics(worker(0)));
    await act(() => Promise.resolve());
    expect(drawn[drawn.length - 1].at).toEqual([NOW - 10, NOW]);
    const chart = screen.getByRole('img', {
      name: /^Load of my-node in the last 5 min, in percent\./
    });
    expect(chart.getAttribute('aria-label')).toContain(
      'Duty: now 20.0 %, between 20.0 % and 30.0 %. HBM: now unknown, between 25.0 % and 25.0 %.'
    );
  });

  it('goes as far back as is chosen, and names only lines that there are', async () => {
    const { load, drawn } = show();
    await click('Load');
    load.series = series;
    load.tell(metrics(worker(0)));
    await click('1 h');
    expect(drawn[drawn.length - 1].at).toEqual(series.at);
    expect(document.querySelector('figcaption')?.textContent).toBe('DutyHBMHost CPU');
  });
});

describe('which processes use the chips', () => {
  const own = holder({ kernel_id: 'k', notebook: 'work/train.ipynb' });

  it('is named by notebook, process, user and time', async () => {
    await shown(metrics(worker(0, { sample: sample({ holders: [own] }) })));
    const list = screen.getByRole('list', { name: 'TPU processes' });
    within(list).getByText('work/train.ipynb');
    // the command line of a kernel is Python's path and our bootstrap
    expect(within(list).queryByText('python train.py')).toBeNull();
    within(list).getByText(/^pid 4242 · me · since /);
  });

  it('is one where the same program runs on all workers, and freed on all of them', async () => {
    const each = sample({ holders: [holder()] });
    const { actions } = await shown(
      metrics(worker(0, { sample: each }), worker(1, { sample: each }), worker(2))
    );
    screen.getByText(/^on 2 workers · me/);
    await click('Release the TPU used by python train.py');
    const [key, processes] = actions.onRelease.mock.calls[0];
    expect(key.node_id).toBe('my-node');
    expect(processes.map(({ worker_id }) => worker_id)).toEqual([0, 1]);
  });

  it('says what became of it', async () => {
    await shown(metrics(worker(0, { sample: sample({ holders: [own] }) })));
    await click('Release the TPU used by work/train.ipynb');
    screen.getByText('The chips are free.');
  });

  it('says that it is being freed only once that is agreed on', async () => {
    const { load, actions } = await shown(
      metrics(worker(0, { sample: sample({ holders: [own] }) }))
    );
    actions.onRelease.mockReturnValue(new Promise(() => undefined));
    await click('Release the TPU used by work/train.ipynb');
    expect(screen.queryByText('Releasing the chips…')).toBeNull();
    load.isReleasing = true;
    load.tell(metrics(worker(0, { sample: sample({ holders: [own] }) })));
    screen.getByText('Releasing the chips…');
  });

  it('says why it was not freed', async () => {
    const { actions } = await shown(metrics(worker(0, { sample: sample({ holders: [own] }) })));
    actions.onRelease.mockRejectedValue(new TpuRequestError(STOCKOUT));
    await click('Release the TPU used by work/train.ipynb');
    within(screen.getByRole('alert')).getByText(STOCKOUT.message);
  });

  it('may be another user, which is said', async () => {
    const other = holder({ user: 'alice', is_own_user: false });
    await shown(metrics(worker(0, { sample: sample({ holders: [other] }) })));
    screen.getByText('another user');
  });
});
