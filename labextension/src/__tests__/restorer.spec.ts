import { asProblem, TpuRequestError } from '../request';
import { NotebookRestorer } from '../restore/restorer';
import { SeenRequests } from '../restore/seen';
import { TestKernel, TestNotebook, TestSource } from './notebook';
import { answer, display, message, request, status, stream, text } from './records';

function refusal(code: string): TpuRequestError {
  return new TpuRequestError(asProblem({ code, message: 'The link is down.' }));
}

/** What outlives a page. */
class Memory {
  text: string | null = null;
  getItem = (): string | null => this.text;
  setItem = (_: string, value: string): void => {
    this.text = value;
  };
}

// a new cell reads itself before it is part of a notebook, and Yjs warns about that each time
beforeAll(() => jest.spyOn(console, 'warn').mockImplementation());

describe('the restorer of a notebook', () => {
  let memory: Memory;
  let source: TestSource;
  let notebook: TestNotebook;
  let restorer: NotebookRestorer;

  function open(...ids: string[]): NotebookRestorer {
    notebook = new TestNotebook(ids);
    restorer = new NotebookRestorer(notebook.panel.context, source, new SeenRequests(memory));
    restorer.addPanel(notebook.panel);
    return restorer;
  }

  const running = (id: string, words: string): ReturnType<typeof request> =>
    request(id, 'a', { state: 'running', execution_count: 7, messages: [stream(id, words, 90)] });

  beforeEach(() => {
    memory = new Memory();
    source = new TestSource();
    open('a', 'b');
  });

  afterEach(() => restorer.dispose());

  async function restore(...requests: ReturnType<typeof request>[]): Promise<void> {
    source.answers = answer(requests);
    await restorer.restore();
  }

  it('fills a cell with its outputs and number, once', async () => {
    await restore(request('1', 'a', { outputs: [text('one\n'), display('two')] }));
    expect(notebook.shown('a')).toBe('[1] one\n|two');
    expect(notebook.shown('b')).toBe('[ ] ');
    expect(restorer.restoredCells).toBe(1);
    await restorer.restore();
    expect(notebook.shown('a')).toBe('[1] one\n|two');
  });

  it('counts no cell that has all already, and does not touch it', async () => {
    notebook.cell('a').model.outputs.add(text('one\n'));
    notebook.cell('a').model.executionCount = 1;
    notebook.model.dirty = false;
    await restore(request('1', 'a'));
    expect(restorer.restoredCells).toBe(0);
    expect(notebook.model.dirty).toBe(false);
  });

  it('makes no cell more trusted than it was, and leaves nothing to undo', async () => {
    await restore(request('1', 'a'), running('2', 'x'));
    expect(notebook.cell('a').model.trusted).toBe(false);
    expect(notebook.shared.canUndo()).toBe(false);
  });

  it('marks a cell that was edited since', async () => {
    await restore(request('1', 'a', { code: 'other()' }));
    expect(notebook.cell('a').model.isDirty).toBe(true);
    expect(notebook.cell('b').model.isDirty).toBe(false);
  });

  it('empties a cell whose run was aborted', async () => {
    notebook.cell('a').model.outputs.add(text('old'));
    await restore(request('1', 'a', { state: 'aborted', outputs: [], execution_count: null }));
    expect(notebook.shown('a')).toBe('[ ] ');
  });

  it('goes on with a running cell to its end', async () => {
    await restore(running('1', 'one\n'));
    expect(notebook.shown('a')).toBe('[*] one\n');
    notebook.kernel.onMessage(stream('1', 'two\n', 101), status('1', 'idle', 102));
    expect(notebook.shown('a')).toBe('[7] one\ntwo\n');
  });

  it('follows a queued cell from its start', async () => {
    await restore(request('1', 'a', { state: 'queued', outputs: [], execution_count: null }));
    expect(notebook.shown('a')).toBe('[*] ');
    notebook.kernel.onMessage(
      message('1', 'execute_input', { code: '', execution_count: 3 }, 101),
      stream('1', 'x', 102),
      status('1', 'idle', 103)
    );
    expect(notebook.shown('a')).toBe('[3] x');
  });

  it('hears what came while it asked, and nothing twice', async () => {
    source.meanwhile = () =>
      notebook.kernel.onMessage(stream('1', 'one\n', 90), stream('1', 'two\n', 101));
    await restore(running('1', 'one\n'));
    expect(notebook.shown('a')).toBe('[*] one\ntwo\n');
  });

  it('asks again for a message that is known in part', async () => {
    await restore(running('1', 'one\n'));
    source.answers = answer([running('1', 'one\ntwo\nthree\n')], 103);
    notebook.kernel.onMessage(
      message('1', 'stream', { name: 'stdout', text: 'one\ntwo\n' }, 102, 99)
    );
    notebook.kernel.onMessage(stream('1', 'three\n', 103), stream('1', 'four\n', 104));
    await new Promise(resolve => setTimeout(resolve));
    expect(source.asked).toEqual([[], ['1']]);
    expect(notebook.shown('a')).toBe('[*] one\ntwo\nthree\nfour\n');
  });

  it('updates displays of any cell from any cell', async () => {
    const update = (parent: string, words: string, seq: number): ReturnType<typeof message> =>
      message(
        parent,
        'update_display_data',
        { data: { 'text/plain': words }, metadata: {}, transient: { display_id: 'd' } },
        seq
      );
    await restore(
      request('1', 'a', { outputs: [text('x'), display('0', 'd')] }),
      request('2', 'b', { state: 'running', outputs: [] })
    );
    notebook.kernel.onMessage(
      message('2', 'display_data', { ...display('1', 'd'), output_type: undefined }, 101)
    );
    expect(notebook.shown('a')).toBe('[1] x|1');
    notebook.kernel.onMessage(update('2', '2', 102));
    expect([notebook.shown('a'), notebook.shown('b')]).toEqual(['[1] x|2', '[*] 2']);
    notebook.kernel.onMessage(update('by-this-page', '3', 103));
    expect([notebook.shown('a'), notebook.shown('b')]).toEqual(['[1] x|3', '[*] 3']);
  });

  it('clears with the next output when it was told so before the page came', async () => {
    const waiting = [stream('1', 'old', 1), message('1', 'clear_output', { wait: true }, 2)];
    await restore(request('1', 'a', { state: 'running', messages: waiting }));
    expect(notebook.shown('a')).toBe('[*] old');
    notebook.kernel.onMessage(stream('1', 'new', 101));
    expect(notebook.shown('a')).toBe('[*] new');
  });

  it('goes on in a cell that was moved', async () => {
    await restore(running('1', 'one\n'));
    notebook.move('a');
    notebook.kernel.onMessage(stream('1', 'two\n', 101));
    await Promise.resolve();
    expect(notebook.shown('a')).toBe('[*] one\ntwo\n');
    notebook.kernel.onMessage(stream('1', 'three\n', 102), status('1', 'idle', 103));
    expect(notebook.shown('a')).toBe('[7] one\ntwo\nthree\n');
  });

  it('keeps what is printed for a cell that is gone, until it comes back', async () => {
    await restore(running('1', 'one\n'));
    notebook.remove('a');
    notebook.kernel.onMessage(stream('1', 'two\n', 101), status('1', 'idle', 102));
    expect(restorer.unplaced.map(run => run.outputs)).toEqual([[text('one\ntwo\n')]]);
    notebook.add('a');
    notebook.changed.emit();
    await Promise.resolve();
    expect(notebook.shown('a')).toBe('[7] one\ntwo\n');
    expect(restorer.unplaced).toEqual([]);
  });

  it('keeps the outputs without a cell when their kernel is gone with its node', async () => {
    await restore(running('1', 'one\n'));
    notebook.remove('a');
    notebook.kernel.onMessage(stream('1', 'two\n', 101), status('1', 'idle', 102));
    notebook.sessionContext.session.kernel = null;
    notebook.sessionContext.kernelChanged.emit();
    expect(restorer.unplaced.map(run => run.outputs)).toEqual([[text('one\ntwo\n')]]);

    const next = Object.assign(new TestKernel(), { id: 'k2' });
    source.answers = answer([]);
    notebook.sessionContext.session.kernel = next;
    notebook.sessionContext.kernelChanged.emit();
    notebook.add('a');
    notebook.changed.emit();
    await Promise.resolve();
    expect(notebook.shown('a')).toBe('[7] one\ntwo\n');
    expect(restorer.unplaced).toEqual([]);
  });

  it('lists an output without a cell once, although its kernel is connected again', async () => {
    await restore(request('1', 'gone'));
    const { kernel } = notebook;
    for (const now of [null, kernel]) {
      notebook.sessionContext.session.kernel = now;
      notebook.sessionContext.kernelChanged.emit();
    }
    await restorer.restore();
    expect(restorer.unplaced.map(({ msgId }) => msgId)).toEqual(['1']);
  });

  it('leaves a running cell to the user who runs it anew', async () => {
    await restore(running('1', 'one\n'));
    notebook.kernel.send('2', 'a');
    notebook.cell('a').model.outputs.clear();
    notebook.kernel.onMessage(stream('1', 'two\n', 101));
    expect(notebook.cell('a').model.outputs.length).toBe(0);
  });

  it('does not restore what the user has run while it asked', async () => {
    source.meanwhile = () => notebook.kernel.send('2', 'a');
    await restore(request('1', 'a'));
    expect(notebook.shown('a')).toBe('[ ] ');
  });

  it('shows what a thread prints after its cell has ended', async () => {
    await restore(request('1', 'a'));
    notebook.kernel.onMessage(stream('1', 'late\n', 101));
    expect(notebook.shown('a')).toBe('[1] one\nlate\n');
  });

  it('asks the question of input() once, and passes the answer on', async () => {
    const question = message('1', 'input_request', { prompt: 'Who? ', password: false }, 95);
    const { cell } = { cell: notebook.cell('a') };
    const asked: string[] = [];
    cell.outputArea.inputRequested.connect(() => asked.push('asked'));
    await restore(request('1', 'a', { state: 'running', messages: [], input: question as never }));
    notebook.kernel.onMessage({ ...question, metadata: {} });
    expect(asked).toEqual(['asked']);
    expect(notebook.kernel.hasPendingInput).toBe(true);
    const { future } = cell.outputArea;
    future.sendInputReply({ status: 'ok', value: 'me' }, question.header as never);
    expect(notebook.kernel.sendInputReply).toHaveBeenCalled();
  });

  it('ends what ran when the kernel restarts', async () => {
    await restore(running('1', 'one\n'));
    notebook.kernel.statusChanged.emit('restarting');
    expect(notebook.shown('a')).toBe('[7] one\n');
  });

  it('goes on with what ran when the restart was refused, and leaves alone what was over', async () => {
    await restore(running('1', 'one\n'));
    notebook.kernel.send('2', 'b');
    notebook.kernel.statusChanged.emit('restarting');
    const own = { session: notebook.kernel.clientId };
    const mine = request('2', 'b', { ...own, state: 'running', messages: [stream('2', 'x', 91)] });
    const over = request('3', 'a', { ...own, outputs: [text('heard')] });
    restorer.forgetEnded();
    await restore(running('1', 'one\n'), mine, over);
    expect([notebook.shown('a'), notebook.shown('b')]).toEqual(['[*] one\n', '[*] x']);
    notebook.kernel.onMessage(stream('1', 'two\n', 101), stream('2', 'y', 102));
    expect([notebook.shown('a'), notebook.shown('b')]).toEqual(['[*] one\ntwo\n', '[*] xy']);
  });

  it('does not bring back what a user removed from a saved notebook', async () => {
    await restore(request('1', 'a'), request('2', 'b'));
    notebook.kernel.send('3', 'a');
    notebook.kernel.onMessage(status('3', 'idle', 102));
    notebook.save();
    restorer.dispose();
    open('b');
    await restore(request('3', 'a'), request('2', 'b'));
    expect(notebook.shown('b')).toBe('[ ] ');
    expect(restorer.unplaced).toEqual([]);
    await restorer.restore(true);
    expect(notebook.shown('b')).toBe('[1] one\n');
    expect(restorer.unplaced.map(({ msgId }) => msgId)).toEqual(['3']);
  });

  it('brings back what was not saved', async () => {
    await restore(request('1', 'a'));
    notebook.saveState.emit('started');
    notebook.saveState.emit('failed');
    restorer.dispose();
    open('a');
    await restore(request('1', 'a'));
    expect(notebook.shown('a')).toBe('[1] one\n');
  });

  it('leaves the notebook unchanged for the page that also has it open', async () => {
    source.connected = 2;
    await restore(running('1', 'one\n'));
    notebook.kernel.onMessage(message('1', 'display_data', display('two'), 101));
    expect(notebook.model.dirty).toBe(false);
    source.connected = 1;
    await restorer.restore();
    notebook.kernel.onMessage(message('1', 'display_data', display('three'), 102));
    expect(notebook.model.dirty).toBe(true);
  });

  it('fetches big outputs one by one', async () => {
    source.meanwhile = () => {
      const [, last] = [source.asked, source.asked[source.asked.length - 1]];
      source.answers = answer([
        last.length > 0
          ? request('1', 'a', { omitted_bytes: 5 })
          : request('1', 'a', { outputs: null, omitted_bytes: 9 })
      ]);
    };
    await restorer.restore();
    expect(source.asked).toEqual([[], ['1']]);
    expect(notebook.shown('a')).toBe('[1] one\n');
    expect(restorer.shortened.map(({ msg_id }) => msg_id)).toEqual(['1']);
  });

  it('speaks of a shortened output until its cell is run again', async () => {
    const told = jest.fn();
    await restore(request('1', 'a', { omitted_bytes: 5 }), request('2', 'b', { omitted_bytes: 5 }));
    restorer.changed.connect(told);
    notebook.kernel.send('3', 'a');
    expect(restorer.shortened.map(({ msg_id }) => msg_id)).toEqual(['2']);
    expect(told).toHaveBeenCalledTimes(1);
  });

  it('speaks of no shortened output of a cell that now shows a newer run', async () => {
    await restore(request('1', 'a', { omitted_bytes: 5 }));
    await restore(request('2', 'a'));
    expect(restorer.shortened).toEqual([]);
  });

  it('says nothing of the kernel that the notebook had before', async () => {
    jest.useFakeTimers();
    const told = jest.fn();
    await restore(request('1', 'a', { omitted_bytes: 5 }));
    source.meanwhile = () => Promise.reject(refusal('link_down'));
    await restorer.restore();
    source.isOurs = false;
    restorer.changed.connect(told);
    notebook.sessionContext.session.kernel = null;
    notebook.sessionContext.kernelChanged.emit();
    const timers = jest.getTimerCount();
    jest.useRealTimers();
    const { restoredCells, shortened, problem } = restorer;
    expect({ restoredCells, shortened, problem, timers }).toEqual({
      ...{ restoredCells: 0, shortened: [], problem: null, timers: 0 }
    });
    expect(told).toHaveBeenCalled();
  });

  it('asks nobody about kernels that run elsewhere', async () => {
    source.isOurs = false;
    await restorer.restore();
    expect(source.asked).toEqual([]);
  });

  it('asks until the server can tell, and says why it cannot', async () => {
    jest.useFakeTimers();
    const problem = asProblem({ code: 'link_down', message: 'The link is down.' });
    source.meanwhile = () => Promise.reject(new TpuRequestError(problem));
    await restore(request('1', 'a'));
    expect(restorer.problem).toBe(problem);
    source.meanwhile = () => undefined;
    await jest.advanceTimersByTimeAsync(60_000);
    jest.useRealTimers();
    expect(restorer.problem).toBeNull();
    expect(notebook.shown('a')).toBe('[1] one\n');
  });

  it('says that one of several reads has failed, restores the others and asks again', async () => {
    jest.useFakeTimers();
    const big = ['a', 'b'].map(id => request(id, id, { outputs: null }));
    const read = ['a', 'b'].map(id => request(id, id));
    let isReachable = false;
    source.meanwhile = () => {
      const [msgId] = source.asked[source.asked.length - 1];
      source.answers = answer(msgId ? read.filter(({ msg_id }) => msg_id === msgId) : big);
      return msgId === 'a' && !isReachable ? Promise.reject(refusal('link_down')) : undefined;
    };
    await restorer.restore();
    expect(restorer.problem?.code).toBe('link_down');
    expect([notebook.shown('a'), notebook.shown('b')]).toEqual(['[ ] ', '[1] one\n']);
    isReachable = true;
    await jest.advanceTimersByTimeAsync(60_000);
    jest.useRealTimers();
    expect(restorer.problem).toBeNull();
    expect(notebook.shown('a')).toBe('[1] one\n');
  });

  it('asks less and less often for a read that fails each time', async () => {
    jest.useFakeTimers();
    source.meanwhile = () => {
      const isWhole = source.asked[source.asked.length - 1].length === 0;
      source.answers = answer([request('1', 'a', { outputs: null })]);
      return isWhole ? undefined : Promise.reject(refusal('link_down'));
    };
    await restorer.restore();
    await jest.advanceTimersByTimeAsync(600_000);
    jest.useRealTimers();
    expect(source.asked.length).toBeLessThan(40);
  });

  it('leaves no timer behind', async () => {
    jest.useFakeTimers();
    source.meanwhile = () => Promise.reject(refusal('link_down'));
    await Promise.all([restorer.restore(), restorer.restore()]);
    restorer.dispose();
    const timers = jest.getTimerCount();
    jest.useRealTimers();
    expect(timers).toBe(0);
  });

  it('does not ask again about a kernel without a record', async () => {
    jest.useFakeTimers();
    source.meanwhile = () =>
      Promise.reject(new TpuRequestError(asProblem({ code: 'outputs_not_found' })));
    await restore();
    await jest.advanceTimersByTimeAsync(600_000);
    jest.useRealTimers();
    expect(source.asked).toEqual([[]]);
    expect(restorer.problem).toBeNull();
  });
});
