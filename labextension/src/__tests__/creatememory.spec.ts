import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { StateDB } from '@jupyterlab/statedb';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { fireEvent, screen, waitFor } from '@testing-library/react';
import { INode, IStatus } from '../api.generated';
import { addCreateCommands } from '../create/commands';
import { CreateMemory, followExample } from '../create/memory';
import { openOn } from '../create/notebookopener';
import { OpenWhenReady } from '../create/openwhenready';
import { CommandIDs, CreateCommandIDs, IOpenChoice, ITpuModel } from '../tokens';
import { list, node, trans } from './fixtures';

const CHOICE = {
  ...{ zone: 'us-central1-a', accelerator_type: 'v5litepod-8', spot: true },
  ...{ runtime_version: 'v2-alpha-tpuv5-lite', way: 'now' as const }
};
const OPEN: IOpenChoice = { kind: 'example', path: 'digits.ipynb', runsAll: true };
const contents = { get: jest.fn().mockRejectedValue(new Error('404')) };

function memoryOf(state: StateDB): CreateMemory {
  return new CreateMemory({
    state,
    contents,
    tracker: null,
    isDemo: () => true,
    opensOn: () => false
  });
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

  it('keeps what opened last when a node comes with its own notebook', async () => {
    const state = new StateDB();
    const memory = memoryOf(state);
    memory.remember('node-1', CHOICE, null);
    const after = memoryOf(state);
    await after.load(Promise.resolve(null));
    expect([after.lastChoice, after.lastOpen]).toEqual([CHOICE, null]);
    after.remember('node-2', CHOICE, OPEN);
    after.remember('node-3', CHOICE, null);
    expect(after.lastOpen).toEqual(OPEN);
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

describe('the example', () => {
  it('is looked for again when another cloud is shown', () => {
    const findExample = jest.fn().mockResolvedValue(undefined);
    const nodes = { status: null as IStatus | null, stateChanged: new Signal({} as never) };
    const show = (endpoint: string | null): void => {
      nodes.status = endpoint === null ? null : ({ endpoint } as IStatus);
      nodes.stateChanged.emit(undefined);
    };
    followExample(nodes as never, { findExample });
    expect(findExample).not.toHaveBeenCalled();
    show('');
    show(null);
    show('');
    expect(findExample).toHaveBeenCalledTimes(1);
    // the emulated cloud is tried
    show('127.0.0.1:9');
    show('127.0.0.1:9');
    expect(findExample).toHaveBeenCalledTimes(2);
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

  it('is known, so that nothing else speaks of the node, until the node ends', () => {
    nodes.list = list({ nodes: [] });
    const waiting = new OpenWhenReady(nodes, opener, null);
    expect(waiting.opensOn(node('node-1'))).toBe(false);
    waiting.add('node-1', 'us-central1-a', OPEN);
    expect(waiting.opensOn(node('node-1'))).toBe(true);
    expect(waiting.opensOn(node('node-2'))).toBe(false);
    nodes.list = list({ nodes: [node('node-1')] });
    waiting.check();
    expect(waiting.opensOn(node('node-1'))).toBe(true);
    nodes.list = list({ nodes: [node('node-1', { state: 'STOPPED' })] });
    waiting.check();
    expect(waiting.opensOn(node('node-1'))).toBe(false);
  });

  it('is not for a node of that name in another zone, unless a search finds it there', () => {
    nodes.list = list({ nodes: [node('node-1')] });
    const waiting = new OpenWhenReady(nodes, opener, null);
    waiting.add('node-1', 'us-east1-d', OPEN);
    expect(opener).not.toHaveBeenCalled();
    waiting.add('node-1', null, OPEN);
    expect(opener).toHaveBeenCalledTimes(1);
  });

  it('opens on a queued node although a search for the same name came later', () => {
    nodes.list = list();
    const waiting = new OpenWhenReady(nodes, opener, null);
    waiting.add('node-1', 'us-central1-a', OPEN);
    waiting.add('node-1', null, { kind: 'none', runsAll: false });
    nodes.list = list({ nodes: [node('node-1')] });
    waiting.check();
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

describe('a notebook that opens on a READY node', () => {
  const fresh = node('node-6');
  const OLD = 'tpu-node-3-us-central1-a';
  const CHOSEN: IOpenChoice = { kind: 'notebook', path: 'work/train.ipynb', runsAll: false };

  const nodes = { list: list(), stateChanged: new Signal<ITpuModel, void>({} as ITpuModel) };

  afterEach(() => Notification.dismiss());

  /** Open a notebook that has this kernel, if any; returns the notebook's changes of kernel. */
  async function openWith(
    kernel: { name: string; status: string } | null,
    others: readonly INode[] = [node('node-3')]
  ): Promise<string[]> {
    nodes.list = list({ nodes: [fresh, ...others] });
    const changes: string[] = [];
    const panel = {
      id: 'panel',
      context: { path: CHOSEN.path },
      sessionContext: {
        ready: Promise.resolve(),
        session: { kernel },
        changeKernel: ({ name }: { name: string }) => Promise.resolve(changes.push(name))
      }
    };
    const kernelspecs = Object.fromEntries(
      [fresh, ...others].map(({ name, kernelspec }) => [
        kernelspec ?? '',
        { metadata: { kernel_provisioner: { provisioner_name: 'tpu', config: { node: name } } } }
      ])
    );
    const app = {
      commands: new CommandRegistry(),
      serviceManager: { kernelspecs: { specs: { kernelspecs } } },
      shell: { activateById: jest.fn() }
    };
    await openOn(
      {
        app: app as unknown as JupyterFrontEnd,
        nodes,
        tracker: { find: () => panel } as unknown as INotebookTracker,
        trans
      },
      ...[fresh, CHOSEN]
    );
    return changes;
  }

  const notices = (): string[] => Notification.manager.notifications.map(({ message }) => message);

  it.each(['busy', 'idle'])(
    'stays on a READY node where its kernel is %s, until moved',
    async status => {
      const changes = await openWith({ name: OLD, status });
      expect(changes).toEqual([]);
      expect(notices()).toEqual([
        'node-6 is ready. train.ipynb still runs on node-3. Moving it ends its kernel there.'
      ]);
      const [move] = Notification.manager.notifications[0].options.actions ?? [];
      expect(move.label).toBe('Move it to node-6');
      move.callback({} as MouseEvent);
      await waitFor(() => expect(changes).toEqual([fresh.kernelspec]));
    }
  );

  it.each([
    ['is pre-empted', [node('node-6', { state: 'PREEMPTED', kernelspec: null })]],
    ['is deleted', []]
  ])('is no longer offered to move once the node %s', async (_, left) => {
    await openWith({ name: OLD, status: 'busy' });
    nodes.stateChanged.emit();
    expect(notices()).toHaveLength(1);
    nodes.list = list({ nodes: [node('node-3'), ...left] });
    nodes.stateChanged.emit();
    expect(notices()).toEqual([]);
  });

  it.each([
    ['without a kernel', null, 'READY'],
    ['with a local kernel', { name: 'python3', status: 'busy' }, 'READY'],
    ['with a dead kernel', { name: OLD, status: 'dead' }, 'READY'],
    ['whose node has ended', { name: OLD, status: 'busy' }, 'PREEMPTED'],
    ['whose node is being deleted', { name: OLD, status: 'idle' }, 'DELETING']
  ])('gets the node if it is one %s', async (_, kernel, state) => {
    expect(await openWith(kernel, [node('node-3', { state })])).toEqual([fresh.kernelspec]);
    expect(notices()).toEqual([]);
  });
});

describe('recreating a node', () => {
  const open = { kind: 'notebook', path: 'train.ipynb', runsAll: false };
  const GONE = {
    ...{ zone: 'us-central1-a', node_id: 'node-1', accelerator_type: 'v5litepod-8' },
    ...{ provisioning: 'spot', path: 'train.ipynb' }
  };

  async function recreate(known: INode | undefined, answer?: string): Promise<object[]> {
    const commands = new CommandRegistry();
    const asked: object[] = [];
    const startNode = (): Promise<void> => Promise.resolve(void asked.push({ start: true }));
    const deleteNode = (): Promise<void> => {
      nodes.list = list({ nodes: [{ ...(known as INode), state: 'DELETING' }] });
      return Promise.resolve();
    };
    const nodes = { list: list(), status: null, findNode: () => known, startNode, deleteNode };
    commands.addCommand(CommandIDs.openForm, { execute: args => asked.push(args) });
    addCreateCommands({
      ...{ app: { commands } as unknown as JupyterFrontEnd, tracker: null, trans },
      nodes: nodes as unknown as ITpuModel,
      memory: memoryOf(new StateDB()),
      waiting: new OpenWhenReady(nodes, jest.fn(), null)
    });
    const recreated = commands.execute(CreateCommandIDs.recreateNode, GONE);
    if (answer) {
      await screen.findByText('Recreate node-1?');
      await screen.findByText(/deleted first.*same name and settings/);
      fireEvent.click(screen.getByText(answer));
    }
    await recreated;
    return asked;
  }

  it('opens the form with what is known of it, and with its notebook', async () => {
    const { path, ...spec } = GONE;
    expect(await recreate(undefined)).toEqual([
      { way: 'now', ...spec, spot: true, open: { ...open, path } }
    ]);
  });

  const left = node('node-1', { state: 'PREEMPTED', spot: true, provisioning: 'spot' });

  it('keeps the name if what is left of the node is deleted first', async () => {
    expect(await recreate(left, 'Delete and recreate')).toMatchObject([
      { node_id: 'node-1', provisioning: 'spot', open }
    ]);
  });

  it('changes nothing if the user cancels', async () => {
    expect(await recreate(left, 'Cancel')).toEqual([]);
  });

  it('leaves the name to the form if another node has it', async () => {
    const other = node('node-1', { spot: true, provisioning: 'spot' });
    expect(await recreate(other)).toMatchObject([{ node_id: '', provisioning: 'spot', open }]);
  });

  it('starts a stopped node', async () => {
    expect(await recreate(node('node-1', { state: 'STOPPED' }))).toEqual([{ start: true }]);
  });
});
