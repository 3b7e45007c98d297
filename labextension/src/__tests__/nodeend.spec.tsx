import { Contents } from '@jupyterlab/services';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import sentences from '../../../tests/models/node_ends.json';
import { INode, INodeEnd, IReplay } from '../api.generated';
import { elapsedText, endText } from '../messages/nodeend';
import { clockTime, formatMoment } from '../money/moments';
import { EndLine, Nodes } from '../replay/endline';
import { EndedReplay, IReplaySource, NotebookReplay } from '../replay/replay';
import { ShownEnds } from '../replay/shown';
import { wayBack } from '../replay/wayback';
import { IDatedList } from '../tokens';
import { list, node, STOCKOUT, trans } from './fixtures';

afterEach(cleanup);

const AT = new Date(2026, 10, 24, 16, 15);
/** As the panel and the browser show it. */
const CLOCK = clockTime(AT.getTime() / 1000);
const START = {
  command: 'tpu:start-node',
  args: { zone: 'us-central1-a', node_id: 'my-node' },
  label: 'Start node'
} as const;
const FORM = {
  command: 'tpu:open-form',
  args: { way: 'now', node_id: '' },
  label: 'Recreate node'
} as const;

function end(rest: Partial<INodeEnd> = {}): INodeEnd {
  return {
    ...{ zone: 'us-central1-a', node_id: 'my-node', cause: 'idle', name: '', detail: '1 h' },
    ...{ at: AT.getTime() / 1000, is_deleted: false, message: '', actions: [START] },
    ...rest
  };
}

function lost(rest: Partial<IReplay> = {}): IReplay & { readonly end: INodeEnd } {
  return {
    ...{ kernel_id: 'k1', is_back: false, recovery: null, age_s: 41, lost_at: null },
    ...{ reason: '', lost_end: null, earlier_at: null, cells: [], ...rest },
    end: rest.end ?? end()
  };
}

/** The sentences of the server, which its own tests check too. */
const SENTENCES = sentences as readonly (Partial<INodeEnd> & { readonly sentence: string })[];

describe('the sentence about the end of a node', () => {
  it.each(SENTENCES)('is that of the server: $sentence', ({ sentence, ...rest }) => {
    expect(endText(end(rest), AT, trans)).toBe(sentence.replace('16:15', CLOCK));
  });

  it('names the day if that was not today', () => {
    const later = new Date(2026, 10, 26);
    const text = endText(end(), later, trans);
    expect(text).toContain(formatMoment(end().at, later.getTime() / 1000));
  });

  it('counts like a clock', () => {
    expect([0, 41, 605, 3729, -5].map(elapsedText)).toEqual([
      ...['0:00', '0:41', '10:05', '1:02:09', '0:00']
    ]);
  });
});

describe('the way back', () => {
  const kind = (ended: INodeEnd, there?: INode): string | undefined => {
    const way = wayBack(ended, there);
    return way ? `${way.kind}${way.isDue ? '' : ', not yet'}` : undefined;
  };

  it('is what the node can do now', () => {
    const at = (state: string, kernelspec: string | null = null): INode =>
      node('my-node', { state, kernelspec });
    expect(kind(end(), at('STOPPING'))).toBe('start, not yet');
    expect(kind(end(), at('STOPPED'))).toBe('start');
    expect(kind(end(), at('STARTING'))).toBe('starting, not yet');
    expect(kind(end(), at('READY'))).toBe('kernel, not yet');
    expect(kind(end(), at('READY', 'tpu-my-node'))).toBe('kernel');
    expect(kind(end({ actions: [FORM] }))).toBe('recreate');
    expect(kind(end({ actions: [] }))).toBeUndefined();
    expect(wayBack(end({ actions: [FORM] }), undefined)).toMatchObject({
      command: 'tpu:recreate-node',
      args: { way: 'now', zone: 'us-central1-a', node_id: 'my-node' }
    });
  });
});

describe('the line about the end of a node', () => {
  const props = {
    ...{ onWayBack: jest.fn(), onChooseKernel: jest.fn(), onDismiss: jest.fn() },
    ...{ trans, nodes: null, onHeight: jest.fn() }
  };
  /** The list of nodes as it was received now; it was made after the node had ended. */
  const listed = (state: string, rest: Partial<IDatedList> = {}): Nodes => {
    const there = node('my-node', { state });
    const dated = list({ nodes: [there], as_of: AT.getTime() / 1000 + 1, ...rest });
    return {
      list: dated,
      problem: null,
      findNode: () => there,
      refresh: jest.fn(() => Promise.resolve())
    };
  };

  it('says what happened, and offers the way back', () => {
    render(<EndLine {...props} lost={lost()} received_ms={0} nodes={listed('STOPPED')} />);
    expect(screen.getByRole('status').textContent).toContain(': idle for 1 h.');
    ['Start node', 'Choose kernel…', 'Dismiss'].forEach(name =>
      fireEvent.click(screen.getByRole('button', { name }))
    );
    expect(props.onWayBack).toHaveBeenCalledWith(
      expect.objectContaining({ command: 'tpu:start-node' })
    );
    expect(props.onChooseKernel).toHaveBeenCalledTimes(1);
    expect(props.onDismiss).toHaveBeenCalledTimes(1);
  });

  it.each([
    ['lists nothing', { error: STOCKOUT }],
    ['does not answer for the zone', { unreachable: ['us-central1-a'] }],
    ['has not answered lately', { age_s: 60 }]
  ])('says what it does not know while the cloud %s', (_, rest) => {
    const nodes = listed('READY', rest);
    render(<EndLine {...props} lost={lost()} received_ms={0} nodes={nodes} />);
    expect(
      screen.getByText(/The node's current state is unknown \(last updated \d+ s ago\)\./)
    ).toBeTruthy();
    expect(screen.queryByRole('button', { name: 'Start kernel' })).toBeNull();
    expect(screen.getByRole('button', { name: 'Choose kernel…' })).toBeTruthy();
    expect(nodes.refresh).toHaveBeenCalled();
  });

  it('offers no kernel by a list from before the end', () => {
    const start = (): HTMLElement | null => screen.queryByRole('button', { name: 'Start kernel' });
    const before = listed('READY', { as_of: AT.getTime() / 1000 - 1 });
    const { rerender } = render(
      <EndLine {...props} lost={lost()} received_ms={0} nodes={before} />
    );
    expect(start()).toBeNull();
    rerender(<EndLine {...props} lost={lost()} received_ms={0} nodes={listed('READY')} />);
    expect(start()).not.toBeNull();
  });

  it('counts while the node is recreated', () => {
    jest.useFakeTimers({ now: AT.getTime() + 41_000 });
    const recovery = { attempt: 1, max_attempts: 3, has_given_up: false, message: '' };
    const coming = lost({ recovery, end: end({ cause: 'preempted' }) });
    render(<EndLine {...props} lost={coming} received_ms={Date.now()} />);
    const line = screen.getByRole('status').parentElement;
    expect(line?.textContent).toBe(
      `my-node pre-empted at ${CLOCK} · recreating (attempt 1 of 3) · 0:41`
    );
    act(() => void jest.advanceTimersByTime(2_000));
    expect(screen.getByRole('timer').textContent).toBe(' · 0:43');
    jest.useRealTimers();
  });

  it('says why auto-recovery has given up', () => {
    const message = 'my-node was not recreated: no capacity.';
    const recovery = { attempt: 3, max_attempts: 3, has_given_up: true, message };
    const ended = end({ cause: 'preempted', actions: [FORM] });
    render(<EndLine {...props} lost={lost({ recovery, end: ended })} received_ms={0} />);
    expect(screen.getByText(message)).toBeTruthy();
    expect(screen.getByRole('button', { name: 'Recreate node…' })).toBeTruthy();
  });
});

describe('a notebook whose node has ended', () => {
  const answers = new Map<string, IReplay>();
  const source: IReplaySource = {
    settle: jest.fn(() => Promise.resolve()),
    replay: (kernelId: string): Promise<IReplay> => {
      const answer = answers.get(kernelId);
      return answer ? Promise.resolve(answer) : Promise.reject(new Error('None.'));
    }
  };
  let own: NotebookReplay;

  beforeEach(async () => {
    answers.set('k1', lost());
    own = new NotebookReplay(source, { sources: new Map(), run: () => Promise.resolve(true) });
    await own.onNodeEnded('k1');
  });

  it('says so when its kernel is off every list', async () => {
    await own.refresh(null);
    expect(own.lost?.end?.cause).toBe('idle');
    answers.clear();
    await own.onNodes();
    expect(own.lost?.end?.cause).toBe('idle');
  });

  it('says so until it has another kernel', async () => {
    await own.refresh('k2');
    expect(own.lost).toBeNull();
  });

  it('says so until it has a kernel that runs on no node', () => {
    own.onOtherKernel();
    expect(own.lost).toBeNull();
  });

  it('says so again when its page is loaded again, even if the server no longer knows', async () => {
    let stored: EndedReplay | null = null;
    const target = { sources: new Map(), run: () => Promise.resolve(true) };
    const before = new NotebookReplay(source, target, shown => (stored = shown));
    await before.refresh('k1');
    answers.clear();
    const after = new NotebookReplay(source, target, shown => (stored = shown));
    await after.restore(stored!);
    await after.refresh(null);
    expect(after.lost?.end?.cause).toBe('idle');
    await after.dismiss();
    expect(stored).toBeNull();
  });

  it('says nothing more once its kernel runs on the recreated node', async () => {
    answers.set('k1', { ...lost(), end: null });
    await own.onKernelReady('k1');
    expect(own.lost).toBeNull();
  });

  it('keeps the lost cells for the next kernel when the line is dismissed', async () => {
    await own.dismiss();
    expect(own.lost).toBeNull();
    expect(source.settle).not.toHaveBeenCalled();
  });
});

describe('the stored end of a node', () => {
  const file = (path: string): Contents.IModel => ({ path }) as Contents.IModel;
  const PATH = 'work/Untitled.ipynb';
  let ends: ShownEnds;

  beforeEach(() => {
    window.sessionStorage.clear();
    ends = new ShownEnds(window.sessionStorage);
    ends.put(PATH, lost());
    ends.put('worker.ipynb', lost());
  });

  afterEach(() => expect(ends.of('worker.ipynb')).not.toBeNull());

  it.each(['work', PATH])('is not that of a new notebook after %s is deleted', path => {
    ends.onFileChanged({ type: 'delete', oldValue: file(path), newValue: null });
    expect(ends.of(PATH)).toBeNull();
  });

  it('is not that of a new notebook with the path of one that was deleted elsewhere', () => {
    ends.onFileChanged({ type: 'new', oldValue: null, newValue: file(PATH) });
    expect(ends.of(PATH)).toBeNull();
  });

  it('is kept when the notebook is saved', () => {
    ends.onFileChanged({ type: 'save', oldValue: null, newValue: file(PATH) });
    expect(ends.of(PATH)).not.toBeNull();
  });

  it.each([
    [PATH, 'a.ipynb', 'a.ipynb'],
    ['work', 'old', 'old/Untitled.ipynb']
  ])('follows when %s is renamed %s, open or not', (from, to, after) => {
    ends.onFileChanged({ type: 'rename', oldValue: file(from), newValue: file(to) });
    ends.move(PATH, after); // the open notebook's own change of path
    expect(ends.of(PATH)).toBeNull();
    expect(ends.of(after)?.end?.cause).toBe('idle');
  });
});
