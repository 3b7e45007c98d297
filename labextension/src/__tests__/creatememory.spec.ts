import { StateDB } from '@jupyterlab/statedb';
import { CreateMemory } from '../create/memory';
import { OpenWhenReady } from '../create/openwhenready';
import { IOpenChoice } from '../tokens';
import { list, node } from './fixtures';

const CHOICE = {
  ...{ zone: 'us-central1-a', accelerator_type: 'v5litepod-8', spot: true },
  ...{ runtime_version: 'v2-alpha-tpuv5-lite', way: 'now' as const }
};
const OPEN: IOpenChoice = { kind: 'example', path: 'digits.ipynb', runsAll: true };
const contents = { get: jest.fn().mockRejectedValue(new Error('404')) };

function memoryOf(state: StateDB): CreateMemory {
  return new CreateMemory({ state, contents, tracker: null, isDemo: () => true });
}

describe('the memory of the form', () => {
  it('has the last choice after a reload, and those of the last nodes', async () => {
    const state = new StateDB();
    memoryOf(state).remember('node-1', CHOICE, OPEN);
    const after = memoryOf(state);
    await after.load(Promise.resolve(null));
    expect(after.lastChoice).toEqual(CHOICE);
    expect(after.lastOpen).toEqual(OPEN);
    expect(after.choiceOf('node-1')).toEqual(CHOICE);
    expect(after.choiceOf('node-2')).toBeNull();
  });

  it('leaves out what another version or a hand has written', async () => {
    const state = new StateDB();
    await state.save('jupyter-tpu:create', { choice: 5, open: [] });
    const memory = memoryOf(state);
    await memory.load(Promise.reject(new Error('no settings')));
    expect(memory.lastChoice).toBeNull();
    expect(memory.profiles).toEqual([]);
  });

  it('has no example where there is none', async () => {
    const memory = memoryOf(new StateDB());
    await memory.findExample();
    expect(memory.example).toBeNull();
  });
});

describe('what waits for a node', () => {
  const opener = jest.fn();
  const nodes = { list: list() };

  beforeEach(() => opener.mockReset());

  it('opens once, when the node is READY and has its kernel', () => {
    const waiting = new OpenWhenReady(nodes, opener, null);
    waiting.add('node-1', 'us-central1-a', OPEN);
    const states = [
      node('node-1', { state: 'CREATING', kernelspec: null }),
      node('node-1', { kernelspec: null }),
      node('node-1'),
      node('node-1')
    ];
    states.forEach(one => {
      nodes.list = list({ nodes: [one] });
      waiting.check();
    });
    expect(opener.mock.calls).toEqual([[states[2], OPEN]]);
  });

  it('is not for a node of that name in another zone, unless a search finds it there', () => {
    nodes.list = list({ nodes: [node('node-1')] });
    const waiting = new OpenWhenReady(nodes, opener, null);
    waiting.add('node-1', 'us-east1-d', OPEN);
    expect(opener).not.toHaveBeenCalled();
    waiting.add('node-1', null, OPEN);
    expect(opener).toHaveBeenCalledTimes(1);
  });

  it('opens after a reload of the page, too', async () => {
    const state = new StateDB();
    nodes.list = list();
    new OpenWhenReady(nodes, opener, state).add('node-1', 'us-central1-a', OPEN);
    nodes.list = list({ nodes: [node('node-1')] });
    await new OpenWhenReady(nodes, opener, state).load();
    expect(opener).toHaveBeenCalledTimes(1);
  });
});
