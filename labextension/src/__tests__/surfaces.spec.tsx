import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import { INotebookTracker, NotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { KernelSpec } from '@jupyterlab/services';
import { fireEvent, render, screen } from '@testing-library/react';
import { Signal } from '@lumino/signaling';
import { Menu, MenuBar, Panel, TabPanel, Widget } from '@lumino/widgets';
import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { INode } from '../api.generated';
import plugins from '../index';
import { IMoneyModel } from '../money/tokens';
import { DEFAULT_SETTINGS, ITpuSettings } from '../settings/settings';
import { Status } from '../spend/statuspopup';
import { NodeChoices } from '../surfaces/nodechoice';
import { NodeNotices } from '../surfaces/nodenotices';
import { NotebookNodes } from '../surfaces/notebooknodes';
import {
  addTab,
  addToNewMenu,
  isTreePage,
  keepKernelOfNewNotebooks,
  showPanel
} from '../surfaces/notebooktree';
import { RunningNodes } from '../surfaces/running';
import { IDatedList, ITpuModel, PANEL_ID } from '../tokens';
import { list, node, trans } from './fixtures';
import { answered, autostop, budget, NODE, spend } from './moneyfixtures';

const KEY = { zone: 'us-central1-a', node_id: 'a' };

function nodesOf(...nodes: INode[]): { list: IDatedList; stateChanged: Signal<ITpuModel, void> } {
  return { list: list({ nodes }), stateChanged: new Signal({} as ITpuModel) };
}

describe('the Running panel', () => {
  const run = jest.fn();
  const running = (...nodes: INode[]): RunningNodes =>
    new RunningNodes({ ...nodesOf(...nodes), refresh: jest.fn() }, run, trans);

  beforeEach(() => run.mockClear());

  it('lists nodes that run or start, with their price', () => {
    const stopped = node('c', { state: 'STOPPED', billing: false });
    const creating = node('b', { state: 'CREATING', billing: false });
    const items = running(node('a'), creating, stopped).running();
    expect(items.map(one => [one.label(), one.detail?.()])).toEqual([
      ['a', '$9.60/h'],
      ['b', 'CREATING']
    ]);
    expect(items[0].labelTitle?.()).toBe('v5litepod-8 in us-central1-a, READY');
  });

  it('asks our own question before it stops one, and one question before it stops all', () => {
    const manager = running(node('a'), node('b', { state: 'CREATING' }));
    manager.running().forEach(one => one.shutdown?.());
    manager.shutdownAll();
    expect(run.mock.calls).toEqual([
      ['tpu:stop-node', KEY],
      ['tpu:delete-node', { ...KEY, node_id: 'b' }],
      ['tpu:panic', { isConfirmed: true }]
    ]);
    expect(manager.shutdownAllConfirmationText).toMatch(
      /in all zones.*Cost now: \$19\.20 per hour\.$/
    );
  });
});

describe('the choice of a node', () => {
  it('says where the notebook runs and what each node costs, and takes a new one', () => {
    const nodes = [node('a'), node('b')];
    const onChange = jest.fn();
    const current = 'tpu-a-us-central1-a';
    render(<NodeChoices {...{ title: '', nodes, current, initial: nodes[1], trans, onChange }} />);
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'b' }).checked).toBe(true);
    expect(screen.getByText(/us-central1-a · \$9.60.* · this notebook runs here/)).toBeTruthy();
    fireEvent.click(screen.getByRole('radio', { name: 'New node…' }));
    expect(onChange).toHaveBeenCalledWith('new');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'New node…' }).checked).toBe(true);
  });
});

describe('notifications of nodes', () => {
  const run = jest.fn();
  let shown: { message: string; labels: string[]; click: (label: string) => void }[];
  let inNotebook: string[];
  let opening: string[];
  let values = DEFAULT_SETTINGS;
  const nodes = { list: null as IDatedList | null, isWatched: false };
  const money = { parts: {} as never };
  let notices: NodeNotices;

  function read(): void {
    shown = Notification.manager.notifications.map(({ message, options }) => ({
      message,
      labels: (options.actions ?? []).map(({ label }) => label),
      click: label =>
        options.actions?.find(one => one.label === label)?.callback({} as unknown as MouseEvent)
    }));
  }

  function see(...of: INode[]): void {
    nodes.list = list({ nodes: of });
    notices.onNodes();
    read();
  }

  function hear(...of: Parameters<typeof autostop>): void {
    money.parts = { autostops: answered({ as_of: 1, nodes: [autostop(...of)] }) } as never;
    notices.onMoney();
    read();
  }

  beforeEach(() => {
    Notification.dismiss();
    run.mockClear();
    inNotebook = [];
    opening = [];
    nodes.isWatched = false;
    values = DEFAULT_SETTINGS;
    const settings = {
      get values() {
        return values;
      },
      changed: new Signal<ITpuSettings, void>({} as ITpuSettings)
    };
    const isInNotebook = (name: string): boolean => inNotebook.includes(name);
    const opensItself = ({ node_id }: INode): boolean => opening.includes(node_id);
    const shared = { nodes, money, settings, run, trans };
    notices = new NodeNotices({ ...shared, isInNotebook, opensItself });
  });

  it('leave the offer of a notebook to the card while the panel is visible', () => {
    see(node('a'));
    nodes.isWatched = true;
    see(node('a'), node('b'));
    expect(shown).toEqual([]);
  });

  it('offer a notebook once a node is ready, not for those that were there', () => {
    see(node('a'));
    expect(shown).toEqual([]);
    see(node('a'), node('b', { state: 'CREATING' }));
    see(node('a'), node('b', { kernelspec: null }));
    expect(shown).toEqual([]);
    see(node('a'), node('b'));
    see(node('a'), node('b'));
    expect(shown).toMatchObject([{ message: 'b is ready.', labels: ['Open new notebook'] }]);
    shown[0].click('Open new notebook');
    expect(run).toHaveBeenCalledWith('tpu:open-notebook', { ...KEY, node_id: 'b' });
    inNotebook = [node('b').name];
    notices.onSessions();
    read();
    expect(shown).toEqual([]);
  });

  it('say nothing of a node on which a notebook opens by itself', () => {
    see(node('b', { state: 'CREATING' }));
    opening = ['b'];
    see(node('b'));
    expect(shown).toEqual([]);
  });

  it('offer to keep a node running before its auto-stop, and go when it is kept', () => {
    hear({ is_warning: true, ends_at: 1540, ends_why: 'idle', action: 'stop' });
    hear({ is_warning: true, ends_at: 1540, ends_why: 'idle', action: 'stop' });
    expect(shown).toMatchObject([
      { message: 'my-node stops in 9 min: idle.', labels: ['Keep running 1 h', 'Show panel'] }
    ]);
    shown[0].click('Keep running 1 h');
    expect(run).toHaveBeenCalledWith('tpu:keep-node', { ...KEY, node_id: 'my-node', for_s: 3600 });
    hear({ is_warning: false, ends_at: 9000 });
    expect(shown).toEqual([]);
  });

  it('offer no extension where a deadline or a budget ends the node', () => {
    hear({ is_warning: true, ends_at: 1540, ends_why: 'budget', action: 'delete' });
    expect(shown).toMatchObject([
      { message: 'my-node is deleted in 9 min: budget used up.', labels: ['Show panel'] }
    ]);
  });

  it('name a pre-empted node', () => {
    see(node('a'));
    see(node('a', { state: 'PREEMPTED', billing: false }));
    expect(shown).toMatchObject([{ message: 'a was pre-empted.', labels: ['Show panel'] }]);
    see();
    expect(shown).toEqual([]);
  });

  it('leave the end of a node to its notebooks, and are silent if the user wants it', () => {
    inNotebook = [node('a').name, NODE];
    see(node('a'));
    see(node('a', { state: 'PREEMPTED', billing: false }));
    hear({ is_warning: true, ends_at: 1540 });
    inNotebook = [];
    values = { ...DEFAULT_SETTINGS, notifyReady: false, notifyEnd: false };
    see(node('b', { state: 'CREATING' }), node('c'));
    see(node('b'), node('c', { state: 'PREEMPTED', billing: false }));
    expect(shown).toEqual([]);
  });
});

describe('the notebooks of a node', () => {
  const SPEC = {
    metadata: { kernel_provisioner: { provisioner_name: 'tpu', config: { node: NODE } } }
  };

  it('still belong to it when its kernelspec and their kernels are gone, not with another kernel', () => {
    const session: { kernel: { name: string } | null } = { kernel: { name: 'tpu' } };
    const panel = { sessionContext: { session } } as unknown as NotebookPanel;
    let kernelspecs: object = { tpu: SPEC, python3: {} };
    const notebooks = new NotebookNodes(
      { forEach: each => each(panel) },
      () => ({ kernelspecs }) as KernelSpec.ISpecModels
    );
    expect(notebooks.has(NODE)).toBe(true);
    kernelspecs = { python3: {} };
    expect(notebooks.has(NODE)).toBe(true);
    session.kernel = null;
    expect(notebooks.has(NODE)).toBe(true);
    session.kernel = { name: 'python3' };
    expect(notebooks.has(NODE)).toBe(false);
  });
});

describe('the pop-up of the status item', () => {
  const actions = { onOpenPanel: jest.fn(), onCreate: jest.fn(), onStopAll: jest.fn() };

  function show(nodes: ReturnType<typeof nodesOf>, budgets = [budget()]): void {
    const parts = {
      spend: answered(spend({ budgets })),
      autostops: answered({ as_of: 1, nodes: [autostop()] })
    };
    const money = { parts, cuts: new Map() } as unknown as IMoneyModel;
    render(<Status {...{ nodes, money, load: null, actions, trans }} />);
  }

  it('shows connection and auto-stop of each node, and the budgets', () => {
    show(nodesOf(node('my-node', { name: NODE })));
    expect(screen.getByRole('listitem').textContent).toMatch(/my-node.*connected.*\$9.60 per hour/);
    expect(screen.getByRole('meter')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Stop everything…' }));
    expect(actions.onStopAll).toHaveBeenCalled();
  });

  it('leads to the panel and to a new node while nothing runs', () => {
    show(nodesOf(), []);
    expect(document.body.textContent).toMatch(/No node is running.*No budget is set/);
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Open TPU panel' }));
    expect(screen.queryByRole('button', { name: 'Stop everything…' })).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Create node…' }));
    expect(actions.onCreate).toHaveBeenCalled();
  });
});

describe('the plugins', () => {
  it('require only one another and what all pages of JupyterLab and Notebook provide', () => {
    const known = new Set([INotebookTracker, ...plugins.map(({ provides }) => provides)]);
    const needed = plugins.flatMap(({ requires }) => requires ?? []);
    expect(needed.filter(token => !known.has(token)).map(({ name }) => name)).toEqual([]);
  });
});

describe('the tree page of Notebook', () => {
  const specsChanged = new Signal<object, void>({});
  let main: Widget[];
  let menu: Menu;
  let tabs: TabPanel;
  const activateById = jest.fn();
  const add = jest.fn();

  function app(): JupyterFrontEnd {
    const shell = { widgets: () => main, activateById, add };
    const serviceManager = { kernelspecs: { specsChanged } };
    return { shell, serviceManager } as unknown as JupyterFrontEnd;
  }

  beforeEach(() => {
    PageConfig.setOption('notebookPage', 'tree');
    menu = new Menu({ commands: new CommandRegistry() });
    const bar = new MenuBar();
    bar.addClass('jp-DropdownMenu');
    bar.addMenu(menu);
    const files = new Panel();
    files.addWidget(bar);
    tabs = new TabPanel();
    tabs.addWidget(files);
    main = [tabs];
    activateById.mockClear();
  });

  afterEach(() => PageConfig.setOption('notebookPage', ''));

  it('gets a tab, which is shown when the panel is asked for', () => {
    const widget = new Widget();
    widget.id = PANEL_ID;
    addTab(app(), widget);
    showPanel(app().shell);
    expect(isTreePage()).toBe(true);
    expect(tabs.currentWidget).toBe(widget);
    expect(activateById).not.toHaveBeenCalled();
  });

  it('gets an entry of New, also after Notebook has filled that menu again', () => {
    addToNewMenu(app());
    const commands = (): string[] => menu.items.map(({ command }) => command).filter(Boolean);
    expect(commands()).toEqual(['tpu:create-node']);
    menu.clearItems();
    specsChanged.emit();
    specsChanged.emit();
    expect(commands()).toEqual(['tpu:create-node']);
  });

  it('gets it also where Notebook makes that menu late', async () => {
    const bar = new MenuBar();
    bar.addClass('jp-DropdownMenu');
    bar.addMenu(menu);
    const files = new Panel();
    tabs = new TabPanel();
    tabs.addWidget(files);
    main = [tabs];
    addToNewMenu(app());
    files.addWidget(bar);
    await new Promise(requestAnimationFrame);
    expect(menu.items.some(({ command }) => command === 'tpu:create-node')).toBe(true);
  });

  it('falls back to the sidebar where there are no tabs', () => {
    main = [];
    const widget = new Widget();
    addTab(app(), widget);
    addToNewMenu(app());
    showPanel(app().shell);
    expect(add).toHaveBeenCalledWith(widget, 'left');
    expect(activateById).toHaveBeenCalledWith(PANEL_ID);
  });
});

describe('a new notebook of Notebook', () => {
  const KERNEL = 'tpu-a-us-central1-a';
  const kernelspecs = {
    [KERNEL]: { name: KERNEL, display_name: 'Python 3 on a', language: 'python', argv: [] },
    python3: { name: 'python3', display_name: 'Python 3', language: 'python', argv: [] }
  };

  /** The notebook that the tree page creates with this kernel, once its file can be read. */
  async function created(name?: string): Promise<{ metadata: object; preference: object }> {
    const nodes = nodesOf(node('a', { kernelspec: KERNEL })) as unknown as ITpuModel;
    const docRegistry = new DocumentRegistry();
    const serviceManager = { kernelspecs: { specs: { kernelspecs } } };
    keepKernelOfNewNotebooks({ docRegistry, serviceManager } as unknown as JupyterFrontEnd, nodes);
    const model = new NotebookModel();
    const sessionContext = { kernelPreference: { name, canStart: true } };
    const context = { sessionContext, model, ready: Promise.resolve() };
    const panel = { context } as unknown as DocumentWidget;
    for (const extension of docRegistry.widgetExtensions('Notebook')) {
      extension.createNew(panel, panel.context);
    }
    await context.ready;
    return { metadata: model.metadata, preference: sessionContext.kernelPreference };
  }

  it('keeps the kernel of its node, which the page that shows it starts', async () => {
    expect(await created(KERNEL)).toMatchObject({
      metadata: {
        kernelspec: { name: KERNEL, display_name: 'Python 3 on a', language: 'python' }
      },
      preference: { name: KERNEL, canStart: true, shouldStart: false }
    });
  });

  it.each([['python3'], ['tpu-gone-us-central1-a'], [undefined]])(
    'is left to Notebook with the kernel %s',
    async name => {
      const { metadata, preference } = await created(name);
      expect(metadata).toMatchObject({ kernelspec: { name: '' } });
      expect(preference).toEqual({ name, canStart: true });
    }
  );
});
