import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Event, Kernel, Session } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import React from 'react';
import { INode } from '../api.generated';
import { AutostopBrief } from '../autostop/autostopbrief';
import { rowsOf } from '../fleet';
import { arrange } from '../nodes/arrangement';
import { kernelRenderers } from '../nodes/kernelrenderers';
import { NodeKernels } from '../nodes/kernels';
import { INodeRenderers } from '../nodes/nodecard';
import { IListActions, NodeList } from '../nodes/nodelist';
import { StopManyQuestion } from '../nodes/nodequestions';
import { KERNEL_SCHEMA } from '../tokens';
import { intent, list, node, STOCKOUT, trans } from './fixtures';
import { answered, autostop } from './moneyfixtures';

beforeEach(() => window.localStorage.clear());
afterEach(cleanup);

function actions(): jest.Mocked<IListActions> {
  return {
    onToggle: jest.fn(),
    onCopy: jest.fn(),
    onOpenNotebook: jest.fn(),
    onStart: jest.fn(),
    onDelete: jest.fn(),
    onRecreate: jest.fn(),
    onCancelCreation: jest.fn(),
    onStopNodes: jest.fn(),
    onDismissFailure: jest.fn(),
    onDismissRefusal: jest.fn()
  };
}

const NOTHING = {
  refusals: new Map(),
  busy: new Set<string>(),
  revealedCard: null,
  createdNode: null,
  openCards: new Set<string>()
};

function show(
  answer: Parameters<typeof list>[0],
  renderers: INodeRenderers = {},
  ...open: string[]
): jest.Mocked<IListActions> {
  const doing = actions();
  render(
    <NodeList
      rows={rowsOf(list(answer))}
      state={{ ...NOTHING, openCards: new Set(open.map(name => `us-central1-a/${name}`)) }}
      clockAhead_s={0}
      actions={doing}
      renderers={renderers}
      trans={trans}
    />
  );
  return doing;
}

function many(count: number): INode[] {
  return Array.from({ length: count }, (_, at) => node(`n-${String(at).padStart(3, '0')}`));
}

function names(): (string | null | undefined)[] {
  return screen
    .getAllByRole('listitem')
    .map(item => item.querySelector('.jp-tpu-Node-name')?.textContent);
}

describe('the list of nodes', () => {
  it('gives the focus to the card of a node that was just created, once', () => {
    const created = { zone: 'us-central1-a', node_id: 'new' };
    const listOf = (...ids: string[]): JSX.Element => (
      <NodeList
        rows={rowsOf(list({ nodes: many(9), intents: ids.map(id => intent(id)) }))}
        state={{ ...NOTHING, createdNode: created }}
        clockAhead_s={0}
        actions={actions()}
        renderers={{}}
        trans={trans}
      />
    );
    const { rerender } = render(listOf());
    expect(document.activeElement).toBe(document.body);
    rerender(listOf('new'));
    expect(document.activeElement).toBe(screen.getByText('new').closest('li'));

    const filter = screen.getByRole('searchbox');
    act(() => filter.focus());
    rerender(listOf('new', 'another'));
    expect(document.activeElement).toBe(filter);
  });

  it('has a filter from eight nodes on', () => {
    show({ nodes: many(7) });
    expect(screen.queryByRole('searchbox')).toBeNull();
    cleanup();
    show({ nodes: [...many(7), node('mine', { accelerator_type: 'v6e-8', state: 'STOPPED' })] });
    const filter = screen.getByRole('searchbox', { name: 'Filter nodes' });
    fireEvent.change(filter, { target: { value: 'V6E stopped' } });
    expect(names()).toEqual(['mine']);
    fireEvent.change(filter, { target: { value: 'nothing of the kind' } });
    screen.getByText('No node matches the filter.');
    fireEvent.keyDown(filter, { key: 'Escape' });
    expect(names()).toHaveLength(8);
  });

  it('remembers the order that was chosen', () => {
    const price = { usd_per_hour: 99, as_of: '', source: '' };
    const nodes = [
      node('a'),
      node('b', { price }),
      node('c', { state: 'STOPPED', billing: false })
    ];
    show({ nodes });
    fireEvent.change(screen.getByLabelText('Sort by'), { target: { value: 'cost' } });
    expect(names()).toEqual(['b', 'a', 'c']);
    cleanup();
    show({ nodes });
    expect(names()).toEqual(['b', 'a', 'c']);
  });

  it('names the zone first where nodes in two zones have the same name', () => {
    show({ nodes: [node('a'), node('a', { zone: 'us-east1-d' }), node('b')] });
    const places = screen
      .getAllByRole('listitem')
      .map(item => item.querySelector('.jp-tpu-Node-where')?.firstChild?.textContent);
    expect(places).toEqual(['us-central1-a', 'us-east1-d', 'v5litepod-8']);
  });

  it('shows no auto-stop of a node that stops or is deleted already', () => {
    const money = { autostopRow: ({ node_id }: INode) => <b>{`auto-stop of ${node_id}`}</b> };
    const renderers = {
      money: {
        ...money,
        autostopAlerts: () => null,
        autostopBrief: () => null,
        recoveryBrief: () => null
      }
    };
    const nodes = [node('a'), node('b'), node('c', { state: 'STOPPING' })];
    const intents = [intent('b', { verb: 'delete' })];
    show({ nodes, intents }, renderers as unknown as INodeRenderers, 'a', 'b', 'c');
    expect(screen.getAllByText(/^auto-stop of/).map(({ textContent }) => textContent)).toEqual([
      'auto-stop of a'
    ]);
  });

  it('sorts by state with what runs first, and keeps failed creations on top', () => {
    const nodes = [node('a', { state: 'PREEMPTED' }), node('b', { state: 'STOPPED' }), node('c')];
    const intents = [intent('z', { settled: true, error: STOCKOUT })];
    const rows = arrange(rowsOf(list({ nodes, intents })), '', 'state', state => state);
    expect(rows.map(({ node_id }) => node_id)).toEqual(['z', 'c', 'b', 'a']);
  });

  it('stops several nodes at once, but only those that run', () => {
    const doing = show({ nodes: [node('a'), node('b', { state: 'STOPPED' }), node('c')] });
    fireEvent.click(screen.getByRole('button', { name: 'Select' }));
    expect(screen.getByRole<HTMLInputElement>('checkbox', { name: 'Select b' }).disabled).toBe(
      true
    );
    const stop = screen.getByRole<HTMLButtonElement>('button', { name: 'Stop 0 selected nodes' });
    expect(stop.disabled).toBe(true);
    ['a', 'c'].forEach(name =>
      fireEvent.click(screen.getByRole('checkbox', { name: `Select ${name}` }))
    );
    fireEvent.click(screen.getByRole('button', { name: 'Stop 2 selected nodes' }));
    expect(doing.onStopNodes.mock.calls[0][0].map(({ node_id }) => node_id)).toEqual(['a', 'c']);
    fireEvent.click(screen.getByRole('button', { name: 'Cancel' }));
    expect(screen.queryByRole('checkbox')).toBeNull();
  });

  it('says once that a node is created, and how long that takes and has taken before, if known', () => {
    jest.useFakeTimers({ now: 100_000 });
    show({
      intents: [
        intent('a', { created_at: 59, usual_s: 80 }),
        intent('b', { created_at: 59, phase: 'booting' }),
        intent('c', { created_at: 59, verb: 'delete', phase: 'deleting' })
      ]
    });
    const texts = [...document.querySelectorAll('.jp-tpu-Progress-text')];
    expect(texts.map(({ textContent }) => textContent)).toEqual([
      'Provisioning the node · 0:41 of about 1:20',
      'Booting · 0:41',
      '0:41'
    ]);
    const values = screen.getAllByRole('progressbar').map(bar => bar.getAttribute('aria-valuenow'));
    expect(values).toEqual(['51', null, null]);
    const names = screen.getAllByRole('progressbar').map(bar => bar.getAttribute('aria-label'));
    expect(names).toEqual(['Creating · Provisioning the node', 'Creating · Booting', 'Deleting']);
    jest.useRealTimers();
  });
});

describe('the question before stopping several nodes', () => {
  it('names each node, the disks and the cost', () => {
    const nodes = [node('a'), node('b', { spot: true })];
    render(<StopManyQuestion nodes={nodes} emulated={false} trans={trans} />);
    const items = screen.getAllByRole('listitem').map(item => item.textContent);
    expect(items).toEqual([
      'a (v5litepod-8 · us-central1-a): $9.60 per hour',
      "b (v5litepod-8 · us-central1-a): $9.60 per hour · can't be started again"
    ]);
    screen.getByText('Their kernels stop. Their disks are kept and billed.');
    screen.getByText('They cost $19.20 per hour now. Hourly billing stops.');
  });
});

describe('the kernels of a node', () => {
  const changed = new Signal<object, Session.IModel[]>({});

  function session(id: string, path: string, spec: string, state = 'idle'): Session.IModel {
    const kernel = { id: `k-${id}`, name: spec, execution_state: state };
    return { id, path, name: '', type: 'notebook', kernel };
  }

  const events = new Signal<object, Event.Emission>({});
  const kernelsChanged = new Signal<object, Kernel.IModel[]>({});
  let models: Kernel.IModel[] = [];
  const kernelManager = {
    running: () => models.values(),
    runningChanged: kernelsChanged
  } as unknown as Kernel.IManager;

  afterEach(() => {
    models = [];
  });

  function kernels(...sessions: Session.IModel[]): NodeKernels {
    const running = (): IterableIterator<Session.IModel> => sessions.values();
    const manager = { running, runningChanged: changed } as unknown as Session.IManager;
    return new NodeKernels(manager, kernelManager, events as unknown as Event.Stream);
  }

  it('have the state of the list of kernels, because that of sessions keeps the first one', () => {
    const found = kernels(session('1', 'a.ipynb', 'tpu-b-us-central1-a', 'starting'));
    const b = node('b');
    expect(found.isStarting(b)).toBe(true);
    const own = { onOpen: jest.fn(), onRestart: jest.fn(), onShutDown: jest.fn() };
    render(kernelRenderers(found, own, trans).list(b));
    screen.getByText('starting');
    models = [{ id: 'k-1', name: 'tpu-b-us-central1-a', execution_state: 'idle' }];
    act(() => kernelsChanged.emit(models));
    screen.getByText('idle');
    expect(found.isStarting(b)).toBe(false);
  });

  it('are said to start until they run, not that their state is unknown', () => {
    const found = kernels(session('1', 'a.ipynb', 'tpu-b-us-central1-a', 'starting'));
    const b = node('b');
    const own = kernelRenderers(
      found,
      { onOpen: jest.fn(), onRestart: jest.fn(), onShutDown: jest.fn() },
      trans
    );
    const nodes = [autostop({ ends_at: null, verdict: 'unknown', name: node('a').name })];
    const brief = (isStarting: boolean): JSX.Element => (
      <AutostopBrief
        node={node('a')}
        autostops={answered({ as_of: null, nodes })}
        {...{ isStarting, trans, actions: { onKeepRunning: jest.fn() } }}
      />
    );
    render(own.whileStarting(node('a'), brief));
    const said = (): string | null | undefined =>
      document.querySelector('.jp-tpu-Node-long')?.textContent;
    const tell = (phase: string): void =>
      act(() =>
        events.emit({
          ...{ schema_id: KERNEL_SCHEMA, kernel_id: 'k', node_name: node('a').name, phase },
          ...{ kernel_name: '', message: '', fraction: null, error_code: '' }
        })
      );
    expect(said()).toBe('Auto-delete after 1 h idle');
    tell('preparing');
    expect(said()).toBe('Starting…');
    tell('ready');
    expect(said()).toBe('Auto-delete after 1 h idle');
    expect(found.isStarting(b)).toBe(true);
    cleanup();
    render(own.list(b));
    screen.getByText('starting');
  });

  it('are named on its closed card, and opened, restarted and shut down on the open one', () => {
    const spec = 'tpu-a-us-central1-a';
    const found = kernels(
      session('1', 'work/train.ipynb', spec, 'busy'),
      session('2', 'work/eval.ipynb', spec),
      session('3', 'local.ipynb', 'python3')
    );
    const doing = { onOpen: jest.fn(), onRestart: jest.fn(), onShutDown: jest.fn() };
    show({ nodes: [node('a')] }, { kernels: kernelRenderers(found, doing, trans) });
    fireEvent.click(screen.getByRole('button', { name: 'eval.ipynb' }));
    expect(doing.onOpen).toHaveBeenCalledWith(expect.objectContaining({ sessionId: '2' }));
    expect(screen.getByText('and 1 more').title).toBe('train.ipynb');
    cleanup();

    show({ nodes: [node('a')] }, { kernels: kernelRenderers(found, doing, trans) }, 'a');
    const own = within(screen.getByRole('list', { name: 'Kernels on a' }));
    expect(own.getAllByRole('listitem').map(item => item.textContent)).toEqual([
      'eval.ipynbidle',
      'train.ipynbbusy'
    ]);
    fireEvent.click(own.getByRole('button', { name: 'Restart the kernel of train.ipynb' }));
    fireEvent.click(own.getByRole('button', { name: 'Shut down the kernel of eval.ipynb' }));
    expect(doing.onRestart).toHaveBeenCalledWith(expect.objectContaining({ sessionId: '1' }));
    expect(doing.onShutDown).toHaveBeenCalledWith(expect.objectContaining({ sessionId: '2' }));
  });

  it('are none where another kernel runs', () => {
    const doing = { onOpen: jest.fn(), onRestart: jest.fn(), onShutDown: jest.fn() };
    const found = kernels(session('3', 'local.ipynb', 'python3'));
    show({ nodes: [node('a')] }, { kernels: kernelRenderers(found, doing, trans) });
    expect(screen.queryByTitle(/^Open .*ipynb/)).toBeNull();
  });
});
