import { CommandRegistry } from '@lumino/commands';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { IMetrics, IReleaseResult } from '../api.generated';
import { LoadClient } from '../load/client';
import { addLoadCommands } from '../load/commands';
import { LoadModel } from '../load/model';
import { programsOf } from '../load/processes';
import { appendCurrent, NO_SERIES, rangeOf, seriesOf, tail } from '../load/series';
import { INodeLoad, LoadCommandIDs } from '../load/tokens';
import { chipsOf, percentOf, totalsOf } from '../load/totals';
import { formatGib } from '../load/values';
import { formatAnswers, formatTotals, formatUnknown, formatUsed } from '../messages/load';
import { TpuClient } from '../request';
import { ITpuModel } from '../tokens';
import { STOCKOUT, trans } from './fixtures';
import { core, GIB, history, holder, metrics, NOW, sample, v3Sample, worker } from './loadfixtures';
import { reply, Server, until } from './server';

const KEY = { zone: 'us-central1-a', node_id: 'my-node' };
const ROUTE = 'nodes/us-central1-a/my-node';

describe('the totals', () => {
  it('are of what is known only', () => {
    const half = sample({
      chips: [
        { chip: 0, duty_percent: 40 },
        { chip: 1, duty_percent: null }
      ],
      cores: [core(0), core(1, { hbm_used_bytes: null })]
    });
    const totals = totalsOf([half]);
    expect(totals.duty_percent).toBe(40);
    expect(totals.hbm_used_bytes).toBe(4 * GIB);
    expect(totals.hbm_total_bytes).toBe(16 * GIB);
  });

  it('of nothing are unknown, not 0', () => {
    const totals = totalsOf([]);
    expect(Object.values(totals)).toEqual([null, null, null, null, null, false]);
    expect(formatTotals(totals, trans)).toBe('unknown');
  });

  it('of chips that nobody holds say that, not unknown', () => {
    const idle = sample({ state: 'idle', chips: [], cores: [] });
    expect(formatTotals(totalsOf([idle]), trans)).toBe('idle');
  });

  it('put cores under the chips they are on, in order', () => {
    const chips = chipsOf(sample({ chips: [{ chip: 6, duty_percent: 1 }], cores: [core(5)] }));
    expect(chips.map(({ chip, duty_percent }) => [chip, duty_percent])).toEqual([
      [5, null],
      [6, 1]
    ]);
  });

  it.each([
    [4, 16, 25],
    [0, 16, 0],
    [4, 0, null],
    [null, 16, null],
    [4, null, null]
  ])('of %p in %p are %p percent', (part, whole, percent) => {
    expect(percentOf(part, whole)).toBe(percent);
  });
});

describe('the words', () => {
  it.each([
    [0, '0.0'],
    [4.25 * GIB, '4.3'],
    [384 * GIB, '384']
  ])('for %p bytes are %p GiB', (bytes, text) => {
    expect(formatGib(bytes)).toBe(text);
  });

  it('for memory of unknown size give what is used', () => {
    expect(formatUsed(GIB, null, trans)).toBe('1.0 GiB');
  });

  it('for what is unknown give its reason, and say where only a part is', () => {
    expect(formatUnknown(v3Sample(), trans)).toEqual([
      'TensorCore: unknown',
      'HBM: partly unknown (libtpu gave -1)',
      'Bandwidth: unknown'
    ]);
    expect(formatUnknown(sample({ unknown: { cores: 'two are missing' } }), trans)).toContain(
      'Some cores: unknown (two are missing)'
    );
  });

  it('for workers say how many gave no new data', () => {
    const silent = worker(1, { error: STOCKOUT });
    expect(formatAnswers(metrics(worker(0), silent), trans)).toBe('2 workers, no new data from 1');
    expect(formatAnswers(metrics(worker(0)), trans)).toBe('');
  });
});

describe('the series', () => {
  it('join what the workers remember, step by step', () => {
    const second = history([NOW - 20, NOW - 10], { duty_percent: { 4: [30, null] } });
    const series = seriesOf(
      metrics(
        worker(0, { history: history([NOW - 20, NOW - 10]) }),
        worker(1, { history: second })
      ),
      10
    );
    expect(series.at).toEqual([NOW - 20, NOW - 10]);
    expect(series.duty).toEqual([52.5, 75]);
    expect(series.busiest).toEqual([100, 100]);
    expect(series.hbm).toEqual([50, 50]);
    expect(series.cpu).toEqual([10, 10]);
  });

  it("are by the server's clock, whatever a worker's says", () => {
    const day = 86_400;
    const late = worker(0, {
      sample: sample({ at: NOW - day }),
      history: history([NOW - day - 10])
    });
    expect(seriesOf(metrics(late), 10).at).toEqual([NOW - 10]);
  });

  it('go on with what is measured, and forget what is old', () => {
    const first = appendCurrent(NO_SERIES, metrics(worker(0)), NOW, 60);
    const second = appendCurrent(first, metrics(worker(0)), NOW + 50, 60);
    const third = appendCurrent(second, metrics(worker(0)), NOW + 100, 60);
    expect(third.at).toEqual([NOW + 50, NOW + 100]);
    expect(third.duty).toEqual([30, 30]);
    expect(appendCurrent(third, metrics(worker(0)), NOW + 100, 60)).toBe(third);
  });

  it('have a gap where no worker answers', () => {
    const silent = metrics(worker(0, { error: STOCKOUT }));
    expect(appendCurrent(NO_SERIES, silent, NOW, 60).duty).toEqual([null]);
  });

  it('end with the last of their lines, and know how far these go', () => {
    const at = [0, 10, 20];
    const series = { at, duty: [1, null, 5], busiest: at, hbm: at, cpu: [null, null, null] };
    expect(tail(series, 10).duty).toEqual([null, 5]);
    expect(rangeOf(series.duty)).toEqual({ min: 1, mean: 3, max: 5, last: 5 });
    expect(rangeOf(series.cpu)).toBeNull();
  });
});

describe('those who hold chips', () => {
  it('are one program where it runs once on each worker, and two where it runs twice on one', () => {
    const own = sample({ holders: [holder({ pid: 1 }), holder({ pid: 2 })] });
    const other = sample({ holders: [holder({ pid: 1 })] });
    const programs = programsOf(metrics(worker(0, { sample: own }), worker(1, { sample: other })));
    expect(
      programs.map(({ processes }) => processes.map(one => [one.worker_id, one.process.pid]))
    ).toEqual([
      [
        [0, 1],
        [1, 1]
      ],
      [[0, 2]]
    ]);
  });

  it('count a kernel on all workers of a slice once, under the name of its notebook', () => {
    const kernel = { kernel_id: 'k', notebook: 'a.ipynb' };
    const own = sample({ holders: [holder({ ...kernel, command: 'python kernel' })] });
    const other = sample({ holders: [holder({ ...kernel, command: 'python engine' })] });
    const programs = programsOf(metrics(worker(0, { sample: own }), worker(1, { sample: other })));
    expect(programs.map(({ processes }) => processes.map(one => one.worker_id))).toEqual([[0, 1]]);
  });
});

const NO_NODES = { list: null, stateChanged: new Signal({}) } as unknown as ITpuModel;

describe('the model of the load', () => {
  let server: Server;
  let model: LoadModel;
  let load: INodeLoad;
  let looks: IDisposable[];

  beforeEach(() => {
    server = new Server();
    answer(metrics(worker(0, { history: history([NOW - 100]) })));
    model = new LoadModel(new LoadClient(new TpuClient(server.settings)));
    load = model.of(KEY);
    looks = [];
  });

  afterEach(() => {
    looks.forEach(subscribe => subscribe.dispose());
    document.querySelectorAll('.jp-Dialog').forEach(dialog => dialog.remove());
  });

  function answer(data: IMetrics): void {
    server.answers[`GET ${ROUTE}/metrics`] = () => reply(data);
  }

  function subscribe(): IDisposable {
    looks.push(load.subscribe(1));
    return looks[looks.length - 1];
  }

  it('asks nothing until somebody looks at a panel that is shown', async () => {
    const first = subscribe();
    model.isWatched = true;
    await until(load.changed, () => load.part.dated !== null);
    first.dispose();
    model.isWatched = false;
    const asked = server.asked.length;
    model.isWatched = true; // nobody looks
    model.isWatched = false;
    subscribe(); // at a panel that is not shown
    expect(server.asked.length).toBe(asked);
  });

  it('asks for a closed card only while it is in sight of a panel that is shown', async () => {
    model.isWatched = true;
    const glance = load.glance();
    await until(load.changed, () => load.part.dated !== null);
    model.isWatched = false;
    const asked = server.asked.length;
    glance.dispose();
    model.isWatched = true; // the card is out of sight
    model.isWatched = false;
    looks.push(load.glance()); // of a panel that is not shown
    expect(server.asked.length).toBe(asked);
    expect(server.queries[0].get('points')).toBeNull();
  });

  it('begins with the past and goes on with the present', async () => {
    model.isWatched = true;
    subscribe();
    await until(load.changed, () => load.series.at.length === 2);
    answer({ ...metrics(worker(0)), as_of: NOW + 1 });
    await until(load.changed, () => load.series.at.length === 3);
    expect(load.series.at[2] - load.series.at[1]).toBe(1);
    expect(server.queries.map(query => query.get('points'))).toEqual(['360', null]);
    expect(server.queries[0].get('history_s')).toBe('3600');
  });

  it('asks a large slice for less of the past', async () => {
    model.isWatched = true;
    looks.push(load.subscribe(64));
    await until(load.changed, () => load.part.dated !== null);
    expect(server.queries[0].get('points')).toBe('60');
  });

  it('keeps what was said last when it is not answered', async () => {
    await load.refresh();
    server.answers[`GET ${ROUTE}/metrics`] = () => reply({ error: STOCKOUT }, 503);
    await load.refresh();
    expect(load.part.dated?.data.workers).toHaveLength(1);
    expect(load.part.problem?.message).toBe(STOCKOUT.message);
  });

  describe('and its command', () => {
    let commands: CommandRegistry;

    beforeEach(() => {
      commands = new CommandRegistry();
      addLoadCommands({ commands, model, nodes: NO_NODES, locate: args => args, trans });
    });

    function heldBy(...holders: ReturnType<typeof holder>[]): void {
      answer(metrics(worker(0, { sample: sample({ holders }) })));
    }

    function answerFree(freed: IReleaseResult): void {
      server.answers[`POST ${ROUTE}/release`] = () => reply(freed);
    }

    /** Click a button of the dialog that comes up; answers what it asks. */
    async function click(label: string): Promise<string> {
      for (;;) {
        const dialog = document.querySelector('.jp-Dialog');
        const buttons = [...(dialog?.querySelectorAll<HTMLElement>('button') ?? [])];
        const button = buttons.find(one => one.textContent === label);
        const question = dialog?.querySelector('.jp-Dialog-body')?.textContent;
        if (button && question) {
          button.click();
          return question;
        }
        await new Promise(requestAnimationFrame);
      }
    }

    function release(): Promise<unknown> {
      const processes = [{ worker_id: 0, pid: 4242 }];
      return commands.execute(LoadCommandIDs.release, { ...KEY, processes });
    }

    function sent(): unknown[] {
      return server.asked.filter(({ method }) => method === 'POST').map(({ body }) => body);
    }

    it('says what ends and what stays, and frees', async () => {
      heldBy(holder({ notebook: 'train.ipynb', kernel_id: 'k' }));
      answerFree({ freed: [holder()], left: [], message: 'Freed: pid 4242.' });
      const done = release();
      expect(load.isReleasing).toBe(false);
      const question = await click('Release');
      expect(question).toContain('train.ipynb');
      expect(question).toContain('worker 0, pid 4242');
      expect(question).toContain('Outputs are kept');
      expect(await done).toBe('Freed: pid 4242.');
      expect(sent()).toEqual([{ worker_id: 0, pid: 4242, force: false }]);
    });

    it('does not take for a kernel what the kernel has started', async () => {
      heldBy(
        holder({ notebook: 'a.ipynb', kernel_id: 'k', command: 'python b.py', is_kernel: false })
      );
      const done = release();
      expect(await click('Cancel')).toContain('python b.py, started by a.ipynb');
      expect(await done).toBeNull();
    });

    it('does nothing when the user thinks better of it', async () => {
      heldBy(holder());
      const done = release();
      await click('Cancel');
      expect(await done).toBeNull();
      expect(sent()).toEqual([]);
    });

    it("asks twice before it ends another user's process", async () => {
      heldBy(holder({ user: 'alice', is_own_user: false }));
      answerFree({ freed: [], left: [], message: '' });
      const done = release();
      expect(await click('Continue…')).toContain('Owned by alice. Each process is asked to exit');
      expect(sent()).toEqual([]);
      expect(await click('End the process')).toContain("alice won't be asked first.");
      await done;
      expect(sent()).toEqual([{ worker_id: 0, pid: 4242, force: true }]);
    });

    it('says who still uses the chips', async () => {
      heldBy(holder());
      answerFree({ freed: [], left: [holder()], message: '' });
      const done = release();
      await Promise.all([
        click('Release'),
        expect(done).rejects.toThrow('Still used by python train.py (4242).')
      ]);
    });

    it('does not ask about what uses the chips no more', async () => {
      heldBy();
      await expect(release()).rejects.toThrow('The process no longer uses the chips.');
    });
  });
});
