import {
  announce,
  billingOf,
  checkName,
  kernelspecsOf,
  rowsOf,
  runningOf,
  suggestName
} from '../fleet';
import { nodesRunning } from '../messages/panel';
import { intent, list, node, STOCKOUT, trans } from './fixtures';

describe('rows', () => {
  it('hold nodes and those that are only wanted, by name', () => {
    const rows = rowsOf(list({ nodes: [node('b'), node('a')], intents: [intent('c')] }));
    expect(rows.map(row => row.node_id)).toEqual(['a', 'b', 'c']);
    expect(rows[2].node).toBeNull();
    expect(rows[2].intent?.phase).toBe('provisioning');
  });

  it('are in the order of the numbers in their names', () => {
    const nodes = ['run-10', 'run-2', 'run-1', 'b'].map(name => node(name));
    expect(rowsOf(list({ nodes })).map(row => row.node_id)).toEqual([
      'b',
      'run-1',
      'run-2',
      'run-10'
    ]);
  });

  it('join an intent with its node', () => {
    const rows = rowsOf(list({ nodes: [node('a')], intents: [intent('a', { verb: 'stop' })] }));
    expect(rows).toHaveLength(1);
    expect(rows[0].intent?.verb).toBe('stop');
  });

  it('keep what failed until it is dismissed, and drop what is done', () => {
    const failed = intent('a', { settled: true, error: STOCKOUT });
    const done = intent('b', { settled: true });
    const rows = rowsOf(list({ intents: [failed, done] }));
    expect(rows.map(row => row.node_id)).toEqual(['a']);
    expect(rows[0].failures).toEqual([failed]);
    expect(rows[0].intent).toBeNull();
  });

  it('say why the workers of a READY node did not boot', () => {
    const intents = [intent('a', { settled: true, error: STOCKOUT })];
    expect(rowsOf(list({ intents, nodes: [node('a')] }))[0].failures).toHaveLength(1);
  });

  it('tell nodes of the same name in two zones apart', () => {
    const nodes = [node('a'), node('a', { zone: 'us-east1-d' })];
    expect(new Set(rowsOf(list({ nodes })).map(row => row.key)).size).toBe(2);
  });
});

describe('the sum', () => {
  it('counts only what is billed', () => {
    const nodes = [node('a'), node('b', { billing: false }), node('c')];
    expect(billingOf(list({ nodes }))).toEqual({
      count: 2,
      usdPerHour: 19.2,
      isPartial: false,
      isCovered: false
    });
  });

  it('is a lower bound where a price is unknown', () => {
    const sum = billingOf(list({ nodes: [node('a'), node('b', { price: null })] }));
    expect(sum).toEqual({ count: 2, usdPerHour: 9.6, isPartial: true, isCovered: false });
  });
});

describe('the nodes at the top of the panel', () => {
  it('are not called running while they stop or are deleted', () => {
    const stopped = node('stopped', { state: 'STOPPED', billing: false });
    const stopping = node('d', { state: 'STOPPING', billing: false });
    const nodes = [node('a'), node('b'), node('c'), stopping, stopped];
    const intents = [intent('b', { verb: 'stop' }), intent('c', { verb: 'delete' })];
    const shown = runningOf(list({ nodes, intents }));
    expect(nodesRunning(shown, trans)).toBe('1 running · 2 stopping · 1 being deleted');
    expect(nodesRunning(runningOf(list({ nodes: [node('a')] })), trans)).toBe('1 running');
  });
});

describe('kernelspecs', () => {
  it('are the same in any order of nodes', () => {
    const here = list({ nodes: [node('a'), node('b'), node('c', { kernelspec: null })] });
    const there = list({ nodes: [node('b'), node('a')] });
    expect(kernelspecsOf(here)).toBe(kernelspecsOf(there));
  });
});

describe('an announcement', () => {
  it('names what changed and what is gone, and nothing else', () => {
    const before = list({ nodes: [node('a', { state: 'CREATING' }), node('b'), node('c')] });
    const after = list({ nodes: [node('a'), node('c')] });
    expect(announce(before, after, trans)).toBe('a is READY. b no longer exists.');
  });
});

describe('a name', () => {
  const key = (node_id: string): { zone: string; node_id: string } => ({
    zone: 'us-central1-a',
    node_id
  });

  it.each(['a', 'my-node', 'n1', 'a'.repeat(63)])('may be %s', name => {
    expect(checkName(key(name), list(), trans)).toBe('');
  });

  it.each(['', 'A', '1a', 'a-', 'a_b', 'a b', '<b>', 'a'.repeat(64)])('may not be %s', name => {
    expect(checkName(key(name), list(), trans)).toContain('lower-case');
  });

  it('may not be taken in its zone', () => {
    const taken = list({ nodes: [node('a')] });
    expect(checkName(key('a'), taken, trans)).toContain('us-central1-a');
    expect(checkName({ zone: 'us-east1-d', node_id: 'a' }, taken, trans)).toBe('');
  });

  it('is suggested only when free', () => {
    expect(suggestName(null)).toBe('node-1');
    expect(suggestName(list({ nodes: [node('node-1')], intents: [intent('node-2')] }))).toBe(
      'node-3'
    );
  });
});
