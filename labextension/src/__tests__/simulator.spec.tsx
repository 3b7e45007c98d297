import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { TpuModel } from '../model';
import { TpuClient } from '../request';
import { addSimulatorCommands } from '../simulator/commands';
import { linkState, changesOf, workerState } from '../simulator/faults';
import { SimulatorModel } from '../simulator/model';
import { ISimulatorActions, ISimulatorState, SimulatorPage } from '../simulator/page';
import { simulator } from '../simulator/plugin';
import { asCloud, ICloud, timeAt } from '../simulator/records';
import { SimulatorCommandIDs } from '../simulator/tokens';
import { list, OFFERS, STOCKOUT, trans } from './fixtures';
import { reply, Server, until } from './server';

afterEach(cleanup);

const NODE = 'projects/demo-project/locations/us-central1-a/nodes/my-node';

const CLOUD: Partial<ICloud> = {
  project: 'demo-project',
  clock: { now: 1_000_000, scale: 10, paused: false },
  nodes: [{ name: NODE, state: 'READY', accelerator_type: 'v5litepod-8', spot: true }],
  ledger: { total_usd: 1.5, usd_per_hour: 9.6 }
};

function actions(): jest.Mocked<ISimulatorActions> {
  return {
    onRefresh: jest.fn(),
    onDismiss: jest.fn(),
    onSetClock: jest.fn(),
    onPreempt: jest.fn(),
    onMaintain: jest.fn(),
    onFaultLink: jest.fn(),
    onFaultWorker: jest.fn(),
    onSetCapacity: jest.fn(),
    onSetQuota: jest.fn(),
    onSetProject: jest.fn(),
    onAddFault: jest.fn(),
    onRemoveFault: jest.fn(),
    onClearFaults: jest.fn(),
    onReset: jest.fn()
  };
}

function show(
  cloud: Partial<ICloud>,
  rest: Partial<ISimulatorState> = {}
): jest.Mocked<ISimulatorActions> {
  const doing = actions();
  const state = {
    cloud: asCloud({ ...CLOUD, ...cloud }),
    problem: null,
    refusal: null,
    isBusy: false,
    offers: OFFERS,
    ...rest
  };
  render(<SimulatorPage state={state} actions={doing} trans={trans} />);
  return doing;
}

function click(name: string | RegExp): void {
  fireEvent.click(screen.getByRole('button', { name }));
}

describe('the page of the failure simulator', () => {
  it('says that costs are simulated, and what it would have cost', () => {
    show({});
    screen.getByText(/demo-project: costs are simulated/);
    screen.getByText(/Simulated cost: \$1\.50/);
  });

  it('pauses the clock, and lets it go on', () => {
    expect(pressed('Pause', false)).toEqual({ paused: true });
    expect(pressed('Resume', true)).toEqual({ paused: false });

    function pressed(button: string, paused: boolean): unknown {
      const doing = show({ clock: { now: 0, scale: 10, paused } });
      click(button);
      cleanup();
      return doing.onSetClock.mock.calls[0][0];
    }
  });

  it('jumps ahead, and goes faster', () => {
    const doing = show({});
    click('+1 hour');
    expect(doing.onSetClock).toHaveBeenCalledWith({ advance_s: 3600 });
    fireEvent.change(screen.getByLabelText('Speed'), { target: { value: '600' } });
    expect(doing.onSetClock).toHaveBeenCalledWith({ scale: 600 });
  });

  it('takes back a node that is there, and none that is gone', () => {
    const doing = show({});
    click('Pre-empt my-node');
    expect(doing.onPreempt).toHaveBeenCalledWith([NODE]);
    cleanup();
    const then = show({
      nodes: [{ name: NODE, state: 'PREEMPTED', accelerator_type: 'v5litepod-8', spot: true }]
    });
    click('Pre-empt my-node');
    expect(then.onPreempt).not.toHaveBeenCalled();
    cleanup();
    show({ nodes: [{ name: NODE, state: 'READY', accelerator_type: 'v5litepod-8' }] });
    expect(screen.queryByText('Pre-empt')).toBeNull(); // the cloud never pre-empts an on-demand node
  });

  it('announces maintenance, and tells when it is', () => {
    const doing = show({});
    click('Announce maintenance of my-node');
    expect(doing.onMaintain).toHaveBeenCalledWith(NODE, 3600);
    cleanup();
    show({ maintenance: [{ node: NODE, starts: 0, is_ongoing: true }] });
    screen.getByText('Under maintenance');
  });

  it('offers only faults that can hit the call', () => {
    show({});
    const form = screen.getByRole('form', { name: 'Add a fault' });
    within(form).getByText(/allow-list/);
    fireEvent.change(within(form).getByLabelText('Next call to'), {
      target: { value: 'ListNodes' }
    });
    expect(within(form).queryByText(/allow-list/)).toBeNull();
    within(form).getByText(/stay hidden/);
  });

  it('takes back the nodes of a queued resource that are there', () => {
    const name = NODE.replace('nodes/my-node', 'queuedResources/q');
    const doing = show({
      queued_resources: [{ name, state: 'ACTIVE', nodes: [NODE, `${NODE}-gone`] }]
    });
    click('Pre-empt q');
    expect(doing.onPreempt).toHaveBeenCalledWith([NODE]);
  });

  it('asks for the fault that is chosen', () => {
    const doing = show({});
    const form = screen.getByRole('form', { name: 'Add a fault' });
    fireEvent.change(within(form).getByLabelText('Next call to'), {
      target: { value: 'StopNode' }
    });
    fireEvent.change(within(form).getByLabelText('Fails with'), { target: { value: 'latency' } });
    fireEvent.submit(form);
    expect(doing.onAddFault).toHaveBeenCalledWith({
      method: 'StopNode',
      kind: 'latency',
      seconds: 10,
      times: 1
    });
  });

  it('names the faults that wait, also those of others, and forgets one', () => {
    const doing = show({
      faults: [
        { id: 4, method: 'CreateNode', kind: 'stockout', times: 1 },
        { id: 5, method: '*', kind: 'page_token_expired', times: null }
      ]
    });
    const faults = screen.getByRole('list', { name: 'Pending faults' });
    within(faults).getByText(/no capacity/);
    within(faults).getByText(/page_token_expired/);
    within(faults).getByText('every time');
    click(/^Remove the fault for any method/);
    expect(doing.onRemoveFault).toHaveBeenCalledWith(5);
  });

  it('cuts the connection to one worker', () => {
    const link = { node: NODE, worker_id: 1, connections: 1, faults: [] };
    const doing = show({ links: [link] });
    click('Disconnect: connection to my-node, worker 1');
    expect(doing.onFaultLink).toHaveBeenCalledWith(link, [{ verb: 'refuse' }, { verb: 'reset' }]);
  });

  it('breaks and restores the machine of one worker', () => {
    const [first, second] = [0, 1].map(worker_id => ({ node: NODE, worker_id, faults: [] }));
    const doing = show({ workers: [first, second] });
    click('Kill: machine of my-node, worker 0');
    click('Slow: machine of my-node, worker 1');
    click('Freeze: machine of my-node, worker 1');
    click('Disconnect: machine of my-node, worker 1');
    click('Restore: machine of my-node, worker 1');
    expect(doing.onFaultWorker.mock.calls).toEqual([
      [first, { action: 'kill' }],
      [second, { action: 'slow', factor: 4 }],
      [second, { action: 'freeze' }],
      [second, { action: 'cut', other_worker_id: 0 }],
      [second, { action: 'clear' }]
    ]);
    expect(
      screen.queryByRole('button', { name: /^Disconnect: machine of my-node, worker 0/ })
    ).toBeNull();
  });

  it('takes away the capacity of a zone, and gives it back', () => {
    const limited = { zone: 'us-central1-a', family: 'v5e', chips: 0 };
    const doing = show({ capacity: [limited] });
    screen.getByText(/stock-out$/);
    click('Remove the limit of v5e in us-central1-a');
    expect(doing.onSetCapacity).toHaveBeenCalledWith({ ...limited, chips: null });
    const form = screen.getByRole('form', { name: 'Limit the capacity of a zone' });
    fireEvent.change(within(form).getByLabelText('Zone'), { target: { value: 'us-east1-d' } });
    fireEvent.change(within(form).getByLabelText('Capacity (chips)'), { target: { value: '0' } });
    fireEvent.submit(form);
    expect(doing.onSetCapacity).toHaveBeenCalledWith({
      zone: 'us-east1-d',
      family: 'v6e',
      chips: 0
    });
  });

  it('asks for no capacity that is no number', () => {
    const doing = show({});
    const form = screen.getByRole('form', { name: 'Limit the capacity of a zone' });
    fireEvent.submit(form);
    fireEvent.change(within(form).getByLabelText('Capacity (chips)'), {
      target: { value: 'many' }
    });
    within(form).getByText('Use a whole number from 0 to 999999999.');
    fireEvent.submit(form);
    expect(doing.onSetCapacity).not.toHaveBeenCalled();
  });

  it('sets the limit of a quota in its zone or region', () => {
    const doing = show({
      quotas: [
        {
          quota_id: 'TPUV4sPodPerProjectPerRegion',
          label: 'v4, on-demand',
          region: 'us-central2',
          limit: 8
        }
      ]
    });
    const form = screen.getByRole('form', { name: 'v4, on-demand in us-central2' });
    expect(within(form).queryByText(/TPUV4sPod/)).toBeNull();
    expect(within(form).getByText('v4, on-demand').title).toBe('TPUV4sPodPerProjectPerRegion');
    fireEvent.submit(form);
    expect(doing.onSetQuota).not.toHaveBeenCalled();
    fireEvent.change(within(form).getByLabelText('limit'), { target: { value: '32' } });
    fireEvent.submit(form);
    expect(doing.onSetQuota).toHaveBeenCalledWith(
      { quota_id: 'TPUV4sPodPerProjectPerRegion', region: 'us-central2' },
      32
    );
  });

  it('turns the API off, and sets what the project may do', () => {
    const doing = show({});
    fireEvent.click(screen.getByLabelText('Cloud TPU API enabled'));
    expect(doing.onSetProject).toHaveBeenCalledWith({ api_enabled: false });
    const form = screen.getByRole('form', { name: 'Project limits' });
    fireEvent.change(within(form).getByLabelText('Denied permissions'), {
      target: { value: 'tpu.nodes.create, tpu.nodes.list' }
    });
    fireEvent.change(within(form).getByLabelText('Creation requests per minute'), {
      target: { value: '2' }
    });
    fireEvent.submit(form);
    expect(doing.onSetProject).toHaveBeenLastCalledWith({
      denied_permissions: ['tpu.nodes.create', 'tpu.nodes.list'],
      denied_locations: [],
      allowlist: null,
      addresses_per_region: null,
      creates_per_minute: 2
    });
  });

  it('says what was refused, in the words of the cloud', () => {
    const doing = show({}, { refusal: STOCKOUT });
    within(screen.getByRole('alert')).getByText(STOCKOUT.message);
    click('Dismiss');
    expect(doing.onDismiss).toHaveBeenCalled();
  });

  it('shows the first of ten thousand nodes', () => {
    const nodes = Array.from({ length: 10_000 }, (_, index) => ({
      name: `${NODE}-${index}`,
      state: 'READY',
      accelerator_type: 'v5litepod-1'
    }));
    show({ nodes });
    screen.getByText('and 9900 more');
  });
});

describe('the emulated cloud', () => {
  it('lives faster than the browser, and not at all while it is paused', () => {
    const cloud = asCloud(CLOUD);
    expect(timeAt(cloud, cloud.received_ms + 2000)).toBe(1_000_020);
    const paused = asCloud({ ...CLOUD, clock: { now: 7, scale: 10, paused: true } });
    expect(timeAt(paused, paused.received_ms + 2000)).toBe(7);
  });

  it('is told of by what has changed in it', () => {
    const before = asCloud(CLOUD);
    const after = asCloud({
      ...CLOUD,
      nodes: [{ name: NODE, state: 'PREEMPTED', accelerator_type: 'v5litepod-8' }],
      clock: { now: 0, scale: 1, paused: true }
    });
    expect(changesOf(before, after, trans)).toBe('my-node is PREEMPTED. The clock is paused.');
    expect(changesOf(before, before, trans)).toBe('');
  });

  it('has links whose faults have names', () => {
    expect(linkState([], trans)).toBe('no faults');
    expect(linkState([{ verb: 'latency', ms: 300 }, { verb: 'refuse' }], trans)).toBe(
      '300 ms slower, disconnected'
    );
  });
});

describe('an emulated worker', () => {
  it('has faults with names', () => {
    expect(workerState([], trans)).toBe('no faults');
    expect(
      workerState(
        [
          { verb: 'slow', factor: 4 },
          { verb: 'cut', other_worker_id: 0 }
        ],
        trans
      )
    ).toBe('4 × slower, disconnected from worker 0');
    expect(workerState([{ verb: 'freeze' }], trans)).toBe('frozen');
  });
});

describe('the model of the failure simulator', () => {
  let server: Server;
  let model: SimulatorModel;

  beforeEach(() => {
    server = new Server();
    server.answers['GET emulator/state'] = () => reply(CLOUD);
    model = new SimulatorModel(new TpuClient(server.settings));
  });

  afterEach(() => model.dispose());

  it('asks for nothing while nobody looks', async () => {
    await model.refresh();
    expect(server.asked).toEqual([]);
  });

  it('shows the cloud as soon as somebody looks', async () => {
    model.isWatched = true;
    await until(model.stateChanged, () => model.cloud?.project === 'demo-project');
  });

  it('asks for one thing after the other, and stops at a refusal', async () => {
    server.answers['POST emulator/links'] = ({ body }) =>
      (body as { verb: string }).verb === 'refuse' ? reply({ error: STOCKOUT }, 400) : reply({});
    await model.send(
      { method: 'POST', part: 'links', body: { verb: 'stall' } },
      { method: 'POST', part: 'links', body: { verb: 'refuse' } },
      { method: 'POST', part: 'links', body: { verb: 'reset' } }
    );
    expect(server.asked.map(({ body }) => body)).toEqual([{ verb: 'stall' }, { verb: 'refuse' }]);
    expect(model.refusal).toEqual(STOCKOUT);
    expect(model.isBusy).toBe(false);
    model.dismissRefusal();
    expect(model.refusal).toBeNull();
  });

  it('keeps what it knew when the cloud does not answer', async () => {
    model.isWatched = true;
    await until(model.stateChanged, () => model.cloud !== null);
    server.answers['GET emulator/state'] = () => reply({ error: STOCKOUT }, 503);
    await model.refresh();
    await until(model.stateChanged, () => model.problem !== null);
    expect(model.cloud?.project).toBe('demo-project');
  });
});

describe('the commands of the failure simulator', () => {
  it('each have a label and say what arguments they take', async () => {
    const commands = new CommandRegistry();
    const model = new SimulatorModel(new TpuClient(new Server().settings));
    addSimulatorCommands(commands, model, trans);
    const { open, ...others } = SimulatorCommandIDs;
    for (const id of Object.values(others)) {
      expect(commands.label(id)).not.toBe('');
      expect((await commands.describedBy(id)).args).toMatchObject({ type: 'object' });
    }
    expect(commands.hasCommand(open)).toBe(false);
    model.dispose();
  });

  it('ask before all is lost', async () => {
    const commands = new CommandRegistry();
    const server = new Server();
    const model = new SimulatorModel(new TpuClient(server.settings));
    addSimulatorCommands(commands, model, trans);
    const asked = commands.execute(SimulatorCommandIDs.reset);
    fireEvent.click(await screen.findByText('Cancel'));
    await asked;
    expect(server.asked).toEqual([]);
    model.dispose();
  });

  it.each([
    [true, true],
    [false, false]
  ])('exist only where the cloud can be broken: %s', async (canBreak, exists) => {
    const server = new Server();
    const status = { project: 'p', endpoint: '', emulated: true, version: '', error: null };
    server.answers['GET status'] = () => reply({ ...status, switchboard: canBreak });
    server.answers['GET nodes'] = () => reply(list());
    const nodes = new TpuModel(new TpuClient(server.settings));
    const commands = new CommandRegistry();
    const app = { commands, serviceManager: { serverSettings: server.settings } };
    await simulator.activate(app as unknown as JupyterFrontEnd, nodes, null, null);
    const listed = new Promise<void>(resolve => {
      nodes.stateChanged.connect(() => nodes.list && resolve());
    });
    nodes.start();
    await listed;
    await import('../simulator/opener'); // which the plugin has begun to load before
    expect(commands.hasCommand(SimulatorCommandIDs.open)).toBe(exists);
    nodes.dispose();
  });
});
