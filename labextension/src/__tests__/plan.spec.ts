import { INotebookNow, planRestore } from '../restore/plan';
import { IRecordedRequest } from '../restore/records';
import { request } from './records';

const CELLS = [
  { cellId: 'a', source: 'run(a)' },
  { cellId: 'b', source: 'run(b)' }
];

function plan(
  requests: IRecordedRequest[],
  now: Partial<INotebookNow> = {}
): { [part: string]: string[] } {
  const made = planRestore(requests, {
    cells: CELLS,
    keepsIds: true,
    session: 'this-page',
    wantsAll: false,
    taken: new Set(),
    isLost: () => false,
    isSeen: () => false,
    ...now
  });
  return {
    fill: made.fill.map(({ cellId, request }) => `${request.msg_id} in ${cellId}`),
    follow: made.follow.map(({ cellId, request }) => `${request.msg_id} in ${cellId}`),
    unplaced: made.unplaced.map(({ msg_id }) => msg_id),
    unread: [...made.unread]
  };
}

const NOTHING = { fill: [], follow: [], unplaced: [], unread: [] };

describe('a plan', () => {
  it('fills cells whose requests are over and follows the others', () => {
    expect(plan([request('1', 'a'), request('2', 'b', { state: 'running' })])).toEqual({
      ...NOTHING,
      fill: ['1 in a'],
      follow: ['2 in b']
    });
  });

  it.each(['done', 'aborted', 'lost'] as const)('takes %s for over', state => {
    expect(plan([request('1', 'a', { state })]).fill).toEqual(['1 in a']);
  });

  it('leaves alone what this page asked itself', () => {
    expect(plan([request('1', 'a', { session: 'this-page' })])).toEqual(NOTHING);
  });

  it('brings back what this page asked itself when all is wanted, but does not follow it', () => {
    const own = { session: 'this-page' };
    const requests = [request('1', 'a', own), request('2', 'b', { ...own, state: 'running' })];
    expect(plan(requests, { wantsAll: true, taken: new Set(['a', 'b']) })).toEqual({
      ...NOTHING,
      fill: ['1 in a']
    });
  });

  it('leaves alone what the notebook had when it was saved', () => {
    expect(plan([request('1', 'a'), request('2', 'gone')], { isSeen: () => true })).toEqual(
      NOTHING
    );
  });

  it('leaves a cell to a newer run', () => {
    expect(plan([request('1', 'a')], { taken: new Set(['a']) })).toEqual(NOTHING);
  });

  it('lists outputs of cells that are gone, and nothing that has none', () => {
    const running = request('3', 'late', { state: 'queued', outputs: [] });
    expect(plan([request('1', 'gone'), request('2', 'too', { outputs: [] }), running])).toEqual({
      ...NOTHING,
      unplaced: ['1', '3']
    });
  });

  it('has nothing to do with what was no cell', () => {
    expect(plan([request('1', null)])).toEqual(NOTHING);
  });

  it('asks again for outputs that were too big', () => {
    const big = { outputs: null, omitted_bytes: 1e8 };
    expect(plan([request('1', 'a', big), request('2', 'gone', big)])).toEqual({
      ...NOTHING,
      unread: ['1', '2']
    });
  });
});

describe('a plan for a file without cell ids', () => {
  const lost = (msg_id: string, code: string): IRecordedRequest =>
    request(msg_id, `random-${msg_id}`, { code });

  it('knows cells by their code, the newest run of it', () => {
    const requests = [lost('1', 'run(a)'), lost('2', 'run(a)'), lost('3', 'run(b)')];
    expect(plan(requests, { keepsIds: false })).toEqual({
      ...NOTHING,
      fill: ['2 in a', '3 in b'],
      unplaced: ['1']
    });
  });

  it('pairs equal cells in order when each was run once', () => {
    const cells = [
      { cellId: 'x', source: 'same' },
      { cellId: 'y', source: 'same' }
    ];
    const requests = [lost('1', 'same'), lost('2', 'same')];
    expect(plan(requests, { keepsIds: false, cells }).fill).toEqual(['1 in x', '2 in y']);
    expect(plan(requests.slice(1), { keepsIds: false, cells }).fill).toEqual([]);
  });

  it('does not guess where the file keeps ids', () => {
    expect(plan([lost('1', 'run(a)')])).toEqual({ ...NOTHING, unplaced: ['1'] });
  });
});
