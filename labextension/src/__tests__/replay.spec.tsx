import { JupyterFrontEnd } from '@jupyterlab/application';
import type { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';
import React from 'react';
import { ILostRun, INodeEnd, IReplay } from '../api.generated';
import { markText, noticeText } from '../messages/replay';
import { clockTime, formatMoment } from '../money/moments';
import { ChoiceList } from '../replay/dialog';
import { CutMarks } from '../replay/marks';
import { Notice } from '../replay/notice';
import { choicesOf } from '../replay/plan';
import { replay as plugin } from '../replay/plugin';
import { IReplaySource, NotebookReplay } from '../replay/replay';
import { trans } from './fixtures';
import { reply, Server } from './server';

afterEach(cleanup);

const LOST_AT = new Date(2026, 10, 21, 14, 2);
const clock = clockTime(LOST_AT.getTime() / 1000);
const NONE: ReadonlySet<string> = new Set();
const HOSTILE = '<img src=x onerror="window.pwned = true">';

function run(msg_id: string, rest: Partial<ILostRun> = {}): ILostRun {
  const cell_id = `cell-${msg_id}`;
  return {
    ...{ msg_id, cell_id, code: `run('${msg_id}')`, is_whole: true },
    ...{ state: 'ok', outputs: 0, order: 0 },
    ...rest
  };
}

function lost(...cells: ILostRun[]): IReplay {
  const lost_at = LOST_AT.getTime() / 1000;
  const place = { kernel_id: 'k1', is_back: true, end: null, recovery: null, age_s: null };
  return {
    ...place,
    lost_at,
    reason: 'The node is gone.',
    lost_end: null,
    earlier_at: null,
    cells
  };
}

const ENDED: INodeEnd = {
  ...{ zone: 'us-central1-a', node_id: 'my-node', cause: 'idle', name: '', detail: '1 h' },
  ...{ at: LOST_AT.getTime() / 1000, is_deleted: false, message: '', actions: [] }
};

describe('the notice of a lost node', () => {
  it('says when it was, what had run and what was cut', () => {
    const cut = run('c', { state: 'cut', outputs: 40 });
    const all = lost(run('a'), run('b', { state: 'error' }), cut, run('d', { state: 'queued' }));
    expect(noticeText(all, NONE, LOST_AT, trans)).toBe(
      `The kernel was lost with its node at ${clock}. 2 cells had run; cell 3 was interrupted after 40 outputs; 1 had not started.`
    );
  });

  it('counts one in the singular, and knows a cell without an output', () => {
    const all = lost(run('a'), run('b', { state: 'cut' }));
    expect(noticeText(all, NONE, LOST_AT, trans)).toBe(
      `The kernel was lost with its node at ${clock}. 1 cell had run; cell 2 was interrupted before its first output.`
    );
  });

  it('begins with the sentence that said how the node ended', () => {
    expect(noticeText({ ...lost(run('a')), lost_end: ENDED }, NONE, LOST_AT, trans)).toBe(
      `my-node was stopped at ${clock}: idle for 1 h. 1 cell had run.`
    );
  });

  it('says when cells were lost with an earlier node than the one that has ended', () => {
    const earlier_at = LOST_AT.getTime() / 1000 - 180;
    const text = noticeText(
      { ...lost(run('a')), lost_end: ENDED, earlier_at },
      NONE,
      LOST_AT,
      trans
    );
    expect(text).toBe(
      `my-node was stopped at ${clock}: idle for 1 h. Cells lost earlier (${clockTime(earlier_at)}): 1 cell had run.`
    );
  });

  it('leaves out what was rerun', () => {
    const all = lost(run('a'), run('b'), run('c', { state: 'cut' }));
    const head = `The kernel was lost with its node at ${clock}.`;
    const cut = 'cell 3 was interrupted before its first output';
    const text = (...done: string[]): string => noticeText(all, new Set(done), LOST_AT, trans);
    expect(text('a')).toBe(`${head} 1 cell had run; ${cut}.`);
    expect(text('a', 'b')).toBe(`${head} ${cut}.`);
    expect(text('c')).toBe(`${head} 2 cells had run.`);
  });

  it('names the day where it was not today', () => {
    const later = new Date(2026, 10, 23);
    expect(noticeText(lost(run('a')), NONE, later, trans)).toContain(
      formatMoment(LOST_AT.getTime() / 1000, later.getTime() / 1000)
    );
  });

  it('offers nothing to run before the node is back', () => {
    const actions = { onRun: jest.fn(), onDismiss: jest.fn() };
    const props = { ...actions, done: NONE, isRunning: false, trans, onHeight: jest.fn() };
    const { rerender } = render(<Notice {...props} lost={{ ...lost(run('a')), is_back: false }} />);
    const button = (): HTMLButtonElement => screen.getByText('Rerun lost cells…');
    expect(button().disabled).toBe(true);
    screen.getByText(/The kernel is not connected yet\.$/);
    rerender(<Notice {...props} lost={lost(run('a'))} />);
    fireEvent.click(button());
    fireEvent.click(screen.getByText('Dismiss'));
    expect(actions.onRun).toHaveBeenCalledTimes(1);
    expect(actions.onDismiss).toHaveBeenCalledTimes(1);
  });
});

describe('the choice of what to run again', () => {
  const edited = run('b', { code: 'old' });
  const sources = new Map([
    ['cell-a', "run('a')\n"],
    ['cell-b', 'new']
  ]);

  it('proposes what is in the notebook and was not run again yet', () => {
    const runs = [run('a'), edited, run('c'), run('d', { cell_id: null, is_whole: false })];
    const choices = choicesOf(runs, sources, new Set(['a']));
    expect(choices.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
    expect(choices.map(({ isProposed }) => isProposed)).toEqual([false, true, false, false]);
    expect(choices.map(({ isEdited }) => isEdited)).toEqual([false, true, false, false]);
    expect(choices.map(({ isMissing }) => isMissing)).toEqual([false, false, true, true]);
    expect(choices.map(({ canRun }) => canRun)).toEqual([true, true, true, false]);
  });

  it('shows code as text, and keeps what was chosen', () => {
    const onChange = jest.fn<void, [ReadonlySet<string>]>();
    const runs = [run('a', { code: HOSTILE }), run('c')];
    const choices = choicesOf(runs, sources, new Set());
    render(
      <ChoiceList choices={choices} initial={new Set(['a'])} onChange={onChange} trans={trans} />
    );
    expect(screen.getByText(HOSTILE)).toBeTruthy();
    const [first, second] = screen.getAllByRole('checkbox');
    fireEvent.click(first);
    fireEvent.click(second);
    expect(onChange.mock.calls.map(([chosen]) => [...chosen])).toEqual([[], ['c']]);
  });

  it('says what happens, marks a cell that goes on, and selects all that can be run or none', () => {
    const runs = [
      run('a', { code: '1\n2\n3\n4' }),
      run('b', { code: '1\n2\n3\n' }),
      run('c', { cell_id: null, is_whole: false })
    ];
    const sources = new Map(runs.slice(0, 2).map(each => [`${each.cell_id}`, each.code]));
    const choices = choicesOf(runs, sources, new Set());
    const onChange = jest.fn<void, [ReadonlySet<string>]>();
    const { container } = render(
      <ChoiceList choices={choices} initial={NONE} onChange={onChange} trans={trans} />
    );
    screen.getByText(/^Variables were lost with the node\./);
    const [first, second] = container.querySelectorAll('code');
    expect([first.textContent, second.textContent]).toEqual(['1\n2\n3\n…', '1\n2\n3']);
    fireEvent.click(screen.getByText('Select all'));
    fireEvent.click(screen.getByText('Select none'));
    expect(onChange.mock.calls.map(([chosen]) => [...chosen])).toEqual([['a', 'b'], []]);
  });
});

class TestSource implements IReplaySource {
  answer = lost(run('a'), run('b'), run('c'));
  readonly settle = jest.fn(() => {
    this.answer = lost();
    return Promise.resolve();
  });

  replay(kernelId: string): Promise<IReplay> {
    return kernelId === 'k1' ? Promise.resolve(this.answer) : Promise.reject(new Error('None.'));
  }
}

describe('running again what was lost', () => {
  const again = jest.fn(({ msg_id }: ILostRun) => Promise.resolve(msg_id !== 'bad'));
  const target = { sources: new Map<string, string>(), run: again };
  let source: TestSource;
  let replay: NotebookReplay;

  beforeEach(async () => {
    again.mockClear();
    source = new TestSource();
    replay = new NotebookReplay(source, target);
    await replay.refresh('k1');
  });

  it('runs the chosen ones in their order, and offers nothing more', async () => {
    await replay.run(new Set(['c', 'a']));
    expect(again.mock.calls.map(([{ msg_id }]) => msg_id)).toEqual(['a', 'c']);
    expect(source.settle).toHaveBeenCalledWith('k1');
    expect(replay.lost).toBeNull();
  });

  it('stops at the first that fails, and offers the others again', async () => {
    source.answer = lost(run('a'), run('bad'), run('c'));
    target.sources = new Map(source.answer.cells.map(each => [`${each.cell_id}`, each.code]));
    await replay.refresh('k1');
    await replay.run(new Set(['a', 'bad', 'c']));
    expect(again.mock.calls.map(([{ msg_id }]) => msg_id)).toEqual(['a', 'bad']);
    expect(source.settle).not.toHaveBeenCalled();
    expect(replay.isRunning).toBe(false);
    expect(replay.choices.map(({ isProposed }) => isProposed)).toEqual([false, true, true]);
  });

  it('offers nothing more once the user has run what the notebook still has', async () => {
    source.answer = lost(run('a'), run('b', { state: 'error' }), run('c', { cell_id: 'gone' }));
    target.sources = new Map(['cell-a', 'cell-b', 'other'].map(id => [id, '']));
    await replay.refresh('k1');
    await replay.onExecuted('other', true);
    await replay.onExecuted('cell-a', false);
    await replay.onExecuted('cell-b', false);
    expect(replay.lost).not.toBeNull();
    await replay.onExecuted('cell-a', true);
    expect(replay.lost).toBeNull();
    expect(source.settle).toHaveBeenCalledWith('k1');
  });

  it('still offers what was run without its kernel', async () => {
    source.answer = { ...lost(run('a')), is_back: false };
    target.sources = new Map([['cell-a', '']]);
    await replay.refresh('k1');
    await replay.onExecuted('cell-a', true);
    expect(replay.lost).not.toBeNull();
  });

  it('offers nothing to a notebook without such a kernel', async () => {
    await replay.refresh('another');
    expect(replay.lost).toBeNull();
    await replay.refresh('k1');
    expect(replay.lost).not.toBeNull();
    await replay.refresh(null);
    expect(replay.lost).toBeNull();
  });

  it('tells what is left as soon as a cell was run again', async () => {
    target.sources = new Map(source.answer.cells.map(each => [`${each.cell_id}`, each.code]));
    const told = jest.fn();
    replay.changed.connect(told);
    await replay.onExecuted('cell-b', true);
    expect(told).toHaveBeenCalledTimes(1);
    expect([...replay.done]).toEqual(['b']);
  });

  it('does not show again what was dismissed while it was requested', async () => {
    const asked = source.answer;
    await replay.dismiss();
    source.answer = asked;
    await replay.refresh('k1');
    expect(replay.lost).toBeNull();
    source.answer = { ...asked, lost_at: (asked.lost_at ?? 0) + 60 };
    await replay.refresh('k1');
    expect(replay.lost).toBe(source.answer);
  });

  it('tells the server when the user does not want it', async () => {
    await replay.dismiss();
    expect(source.settle).toHaveBeenCalledWith('k1');
    expect(replay.lost).toBeNull();
  });
});

describe('the mark under a cell that was cut', () => {
  it('is there until the cell is run again', async () => {
    const ready = Promise.resolve();
    const cells = ['one', 'two'].map(id => Object.assign(new Panel(), { model: { id }, ready }));
    const find = (id: string | null): CodeCell | undefined =>
      cells.find(({ model }) => model.id === id) as unknown as CodeCell | undefined;
    const marks = new CutMarks(find, each =>
      markText(each, LOST_AT.getTime() / 1000, LOST_AT, trans)
    );
    const cut = run('b', { cell_id: 'two', state: 'cut', outputs: 40 });
    const shown = (): (string | null)[] => cells.map(({ node }) => node.textContent);
    marks.show([run('a', { cell_id: 'one' }), cut, run('c', { cell_id: 'gone', state: 'cut' })]);
    await ready;
    expect(shown()).toEqual(['', `Lost with the node at ${clock}, after output 40`]);
    marks.remove('two');
    expect(shown()).toEqual(['', '']);
    marks.show([cut]);
    marks.show([]);
    await ready;
    expect(shown()).toEqual(['', '']);
  });
});

/** An open notebook whose kernel was lost with its node. */
class TestPanel {
  readonly context;
  readonly contentHeader = new Panel();
  readonly content = { widgets: [], activate: jest.fn() };
  readonly disposed = new Signal<this, void>(this);
  readonly sessionContext;

  constructor(path: string, kernelId: string | null) {
    this.sessionContext = {
      kernelChanged: new Signal<object, void>({}),
      kernelPreference: {},
      session: kernelId === null ? null : { kernel: { id: kernelId, name: 'tpu-a' } }
    };
    const { sessionContext } = this;
    const pathChanged = new Signal<object, string>({});
    this.context = { path, pathChanged, ready: Promise.resolve(), sessionContext };
  }
}

describe('the notices of open notebooks', () => {
  const panels: TestPanel[] = [];
  const widgetAdded = new Signal<object, TestPanel>({});
  const find = (fits: (panel: TestPanel) => boolean): TestPanel | undefined => panels.find(fits);
  const server = new Server();
  let extension: { createNew: (panel: TestPanel) => void };
  const app = {
    commands: new CommandRegistry(),
    docRegistry: {
      addWidgetExtension: (_: string, one: typeof extension) => (extension = one)
    },
    serviceManager: {
      serverSettings: server.settings,
      contents: { fileChanged: new Signal({}) },
      events: { stream: new Signal({}) },
      kernelspecs: { specs: null }
    }
  };

  beforeAll(() => {
    const tracker = { widgetAdded, find, currentWidget: null } as unknown as INotebookTracker;
    void plugin.activate(app as unknown as JupyterFrontEnd, tracker, null);
  });

  /** Open a notebook and wait for its notice. */
  async function open(path: string, kernelId: string): Promise<TestPanel> {
    const route = `kernels/${kernelId}/replay`;
    server.answers[`GET ${route}`] = () => reply({ ...lost(run('a')), kernel_id: kernelId });
    server.answers[`DELETE ${route}`] = () => reply({});
    const panel = new TestPanel(path, kernelId);
    show(panel);
    await waitFor(() => expect(screen.getAllByText('Dismiss')).toHaveLength(panels.length));
    return panel;
  }

  function show(panel: TestPanel): void {
    panels.push(panel);
    Widget.attach(panel.contentHeader, document.body);
    extension.createNew(panel);
    widgetAdded.emit(panel);
  }

  it('act on their own notebook when another has its old path', async () => {
    const renamed = await open('a.ipynb', 'k1');
    renamed.context.path = 'b.ipynb';
    await open('a.ipynb', 'k2');
    fireEvent.click(screen.getAllByText('Dismiss')[0]);
    const dismissed = (): string[] =>
      server.asked.filter(({ method }) => method === 'DELETE').map(({ route }) => route);
    await waitFor(() => expect(dismissed()).toEqual(['kernels/k1/replay']));
    panels.splice(0).forEach(({ contentHeader }) => contentHeader.dispose());
  });

  it('are there again when the page is loaded again, and no kernel is asked for', async () => {
    const ended = { ...lost(), is_back: false, end: ENDED, kernel_id: 'k3' };
    server.answers['GET kernels/k3/replay'] = () => reply(ended);
    const before = new TestPanel('c.ipynb', 'k3');
    show(before);
    await waitFor(() => screen.getByText(/idle for 1 h\.$/));
    before.context.path = 'd.ipynb';
    before.context.pathChanged.emit('d.ipynb');
    panels.splice(0).forEach(({ contentHeader }) => contentHeader.dispose());
    delete server.answers['GET kernels/k3/replay'];

    const after = new TestPanel('d.ipynb', null);
    const other = new TestPanel('c.ipynb', null);
    [after, other].forEach(show);
    expect([after, other].map(each => each.sessionContext.kernelPreference)).toEqual([
      { shouldStart: false },
      {}
    ]);
    await waitFor(() => expect(screen.getAllByText(/idle for 1 h\.$/)).toHaveLength(1));
  });
});
