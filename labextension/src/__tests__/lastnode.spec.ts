import { Notification } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { KernelSpec } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { LastNodes } from '../surfaces/lastnode';
import { list, node, trans } from './fixtures';

const SPEC = 'tpu-my-node';
const FIRST = node('my-node', { kernelspec: SPEC, create_time: '2026-11-27T10:00:00Z' });
const SECOND = { ...FIRST, create_time: '2026-11-27T12:00:00Z' };

class TestPanel {
  readonly context;
  readonly sessionContext;

  constructor(path: string, name = '') {
    this.context = { path, pathChanged: new Signal<object, string>({}) };
    const kernelChanged = new Signal<object, { newValue: object | null }>({});
    this.sessionContext = { kernelPreference: { name }, kernelChanged };
  }

  start(): void {
    this.sessionContext.kernelChanged.emit({ newValue: { name: SPEC } });
  }

  get panel(): NotebookPanel {
    return this as unknown as NotebookPanel;
  }
}

describe('a notebook whose node was replaced by one of the same name', () => {
  const config = { node: FIRST.name };
  const metadata = { kernel_provisioner: { provisioner_name: 'tpu', config } };
  const specs = { kernelspecs: { [SPEC]: { metadata } } } as unknown as KernelSpec.ISpecModels;
  const nodes = { list: list({ nodes: [FIRST] }), refresh: () => Promise.resolve() };
  const running = new Set<string>();
  const onChooseKernel = jest.fn();
  let last: LastNodes;

  function open(path: string, name?: string): TestPanel {
    const panel = new TestPanel(path, name);
    last.watch(panel.panel);
    return panel;
  }

  async function told(): Promise<string[]> {
    await new Promise(resolve => setTimeout(resolve));
    return Notification.manager.notifications.map(({ message }) => message);
  }

  beforeEach(async () => {
    Notification.dismiss();
    window.localStorage.clear();
    running.clear();
    nodes.list = list({ nodes: [FIRST] });
    const isRunning = (path: string): boolean => running.has(path);
    const context = { nodes, specs: () => specs, isRunning, onChooseKernel, trans };
    last = new LastNodes(context, window.localStorage);
    open('a/b.ipynb').start();
    expect(await told()).toEqual([]);
  });

  it('says so once, and lets the user choose', async () => {
    nodes.list = list({ nodes: [SECOND] });
    const panel = open('a/b.ipynb');
    panel.start();
    expect(await told()).toEqual([
      'my-node is a new node. b.ipynb ran on an earlier node with this name.'
    ]);
    const [{ options }] = Notification.manager.notifications;
    options.actions?.[0].callback(new MouseEvent('click'));
    expect(onChooseKernel).toHaveBeenCalledWith(panel.panel);

    Notification.dismiss();
    open('a/b.ipynb').start();
    expect(await told()).toEqual([]);
  });

  it('says nothing on the same node, or of another notebook', async () => {
    open('a/b.ipynb').start();
    nodes.list = list({ nodes: [SECOND] });
    open('other.ipynb').start();
    expect(await told()).toEqual([]);
  });

  it('says nothing of a kernel that the user chose, or that runs already', async () => {
    nodes.list = list({ nodes: [SECOND] });
    open('a/b.ipynb', SPEC).start();
    expect(await told()).toEqual([]);
    nodes.list = list({ nodes: [FIRST] });
    running.add('a/b.ipynb');
    open('a/b.ipynb').start();
    expect(await told()).toEqual([]);
  });

  it('knows a notebook that was renamed', async () => {
    open('a/b.ipynb').context.pathChanged.emit('c.ipynb');
    nodes.list = list({ nodes: [SECOND] });
    open('c.ipynb').start();
    expect(await told()).toHaveLength(1);
  });
});
