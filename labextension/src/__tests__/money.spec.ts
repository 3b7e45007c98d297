import { fireEvent, screen } from '@testing-library/react';
import { Notification } from '@jupyterlab/apputils';
import { Event as ServerEvent } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { IQueued } from '../api.generated';
import { nextToStop } from '../autostop/rules';
import {
  candidatesFor,
  nowTerms,
  queueTerms,
  runTime,
  searchTerms,
  WAY_DRAFT,
  wayOf
} from '../create/draft';
import { autostopCountdown, autostopSummary } from '../messages/autostop';
import { totalCost } from '../messages/cleanup';
import { formatMoney, formatRate } from '../messages/spend';
import { formatDuration } from '../messages/units';
import { budgetTermsOf } from '../money/budgetterms';
import { MoneyClient } from '../money/client';
import { createActions } from '../money/actions';
import { addMoneyCommands } from '../money/commands';
import { MoneyModel, serverNow } from '../money/model';
import { MoneyCommandIDs } from '../money/tokens';
import { errorText, formatDetail } from '../problemtext';
import { limitsWithRoom } from '../quota/limits';
import { TpuClient } from '../request';
import { isBilled } from '../spend/rates';
import { FLEET_SCHEMA, IDatedList, INodeSpec } from '../tokens';
import { intent, list, node, offer, OFFERS, STOCKOUT, trans } from './fixtures';
import { autostop, budget, item, limit, NODE, queued, spend } from './moneyfixtures';
import { reply, Server, until } from './server';

const MINUTE_MS = 60_000;

let server: Server;
let model: MoneyModel;
let events: Signal<ServerEvent.IManager, ServerEvent.Emission>;

/** Let the tab be seen, or not. */
function show(state: DocumentVisibilityState): void {
  jest.spyOn(document, 'visibilityState', 'get').mockReturnValue(state);
  jest.spyOn(document, 'hidden', 'get').mockReturnValue(state === 'hidden');
  document.dispatchEvent(new Event('visibilitychange'));
}

function asked(): string[] {
  return server.asked.map(({ method, route }) => `${method} ${route}`);
}

beforeEach(() => {
  server = new Server();
  server.answers['GET spend'] = () => reply(spend());
  server.answers['GET autostop'] = () => reply({ as_of: 1, nodes: [autostop()] });
  server.answers['GET recovery'] = () => reply({ choices: [] });
  server.answers['GET searches'] = () => reply({ searches: [] });
  events = new Signal<ServerEvent.IManager, ServerEvent.Emission>({} as ServerEvent.IManager);
  const client = new MoneyClient(new TpuClient(server.settings));
  model = new MoneyModel(client, events as unknown as ServerEvent.Stream);
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
  show('visible');
});

describe('the model of money', () => {
  it('asks nothing before it is started', () => {
    expect(server.asked).toEqual([]);
  });

  it('asks only for what the status bar shows while nobody looks', async () => {
    model.start();
    await until(
      model.stateChanged,
      () => model.parts.autostops.dated !== null && model.parts.spend.dated !== null
    );
    expect(asked().sort()).toEqual(['GET autostop', 'GET spend']);
  });

  it('asks for the rest of the panel as soon as somebody looks', async () => {
    model.isWatched = true;
    await until(
      model.stateChanged,
      () => model.parts.searches.dated !== null && model.parts.recovery.dated !== null
    );
    expect(asked()).not.toContain('GET quota');
  });

  it('asks for a section when it is opened', async () => {
    server.answers['GET quota'] = () => reply({ limits: [limit()] });
    model.toggle('quota');
    await until(model.stateChanged, () => model.parts.quota.dated !== null);
    expect(asked()).toEqual(['GET quota']);
    model.toggle('quota');
    expect(model.open.has('quota')).toBe(false);
  });

  it('keeps what it knew of a part that is not answered, and all other parts', async () => {
    model.isWatched = true;
    await until(
      model.stateChanged,
      () => model.parts.spend.dated !== null && model.parts.autostops.dated !== null
    );
    server.answers['GET spend'] = () => reply({ error: STOCKOUT }, 503);
    await model.refresh();
    await until(model.stateChanged, () => model.parts.spend.problem !== null);
    expect(model.parts.spend.problem).toEqual(STOCKOUT);
    expect(model.parts.spend.dated?.data.usd_per_hour).toBe(9.6);
    expect(model.parts.autostops.problem).toBeNull();
  });

  it('asks for the queue once, then as long as something waits there', async () => {
    const queueIs = (...items: IQueued[]): void => {
      const answer = { as_of: 1, is_complete: true, unreachable: [], items };
      server.answers['GET queue'] = () => reply(answer);
    };
    const count = (): number => asked().filter(one => one === 'GET queue').length;
    queueIs();
    model.isWatched = true;
    await until(model.stateChanged, () => model.parts.queue.dated !== null);
    await model.refresh();
    expect(count()).toBe(1);

    queueIs(queued());
    model.toggle('capacity');
    await until(model.stateChanged, () => model.parts.queue.dated?.data.items.length === 1);
    model.toggle('capacity');
    model.isWatched = false;
    queueIs(queued({ state: 'ACTIVE' }));
    await model.refresh();
    expect(count()).toBe(3);
    await model.refresh();
    expect(count()).toBe(3);
  });

  it('shows what was queued, and says so', async () => {
    Notification.dismiss();
    const commands = new CommandRegistry();
    commands.addCommand(MoneyCommandIDs.queue, { execute: () => undefined });
    const answer = { as_of: 1, is_complete: true, unreachable: [], items: [queued()] };
    server.answers['GET queue'] = () => reply(answer);
    const { onQueue, queued: names } = createActions(model, commands, trans);
    const place = { zone: 'us-central1-a', accelerator_type: 'v5litepod-8' };
    await onQueue({ ...place, node_id: 'my-node', runtime_version: '' });
    expect(model.revealed?.section).toBe('capacity');
    const [{ message, type }] = Notification.manager.notifications;
    expect([type, message]).toEqual([
      'success',
      'my-node (v5litepod-8) is queued in us-central1-a.'
    ]);
    await until(model.stateChanged, () => names().length > 0);
    expect(names()).toEqual([{ zone: 'us-central1-a', node_id: 'my-node' }]);
  });

  it('knows that an older server has no such route', async () => {
    model.toggle('audit');
    await until(model.stateChanged, () => model.parts.audit.problem !== null);
    expect(model.parts.audit.problem?.code).toBe('http_404');
  });

  it('asks again when something has happened to the nodes', async () => {
    const event = { schema_id: FLEET_SCHEMA } as ServerEvent.Emission;
    events.emit(event);
    events.emit(event);
    await until(model.stateChanged, () => model.parts.spend.dated !== null);
    expect(asked().filter(one => one === 'GET spend')).toHaveLength(1);
  });

  it('asks only for auto-stop when a node became busy or idle', async () => {
    jest.useFakeTimers();
    const event = { schema_id: FLEET_SCHEMA, kind: 'activity' } as ServerEvent.Emission;
    events.emit(event);
    events.emit(event);
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(asked()).toEqual(['GET autostop']);
  });

  it('asks once more when the server has had time to record the last of several events', async () => {
    jest.useFakeTimers();
    const event = { schema_id: FLEET_SCHEMA } as ServerEvent.Emission;
    events.emit(event);
    await jest.advanceTimersByTimeAsync(2900);
    events.emit(event);
    await jest.advanceTimersByTimeAsync(1000);
    const before = asked().length;
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(asked().slice(before).sort()).toEqual(['GET autostop', 'GET spend']);
  });

  it('asks when the tab is seen again, if something has happened while it was hidden', async () => {
    jest.useFakeTimers();
    const isBilledNow = (): boolean => model.parts.spend.dated?.data.usd_per_hour === 9.6;
    const event = { schema_id: FLEET_SCHEMA } as ServerEvent.Emission;
    server.answers['GET spend'] = () => reply(spend({ usd_per_hour: 0 }));
    model.start();
    show('hidden');
    events.emit(event);
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    server.answers['GET spend'] = () => reply(spend());
    events.emit(event);
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(isBilledNow()).toBe(false);
    show('visible');
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(isBilledNow()).toBe(true);
  });

  it('asks nothing while the tab is hidden, whatever is due, and once when it is seen again', async () => {
    jest.useFakeTimers();
    model.isWatched = true;
    model.start();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    show('hidden');
    const before = asked().length;
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    await model.refresh();
    expect(asked()).toHaveLength(before);
    show('visible');
    await jest.advanceTimersByTimeAsync(1000);
    expect(asked().slice(before).sort()).toEqual([
      'GET autostop',
      'GET recovery',
      'GET searches',
      'GET spend'
    ]);
  });

  it('asks nothing in a tab that is opened in the background', async () => {
    jest.useFakeTimers();
    show('hidden');
    model.start();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(server.asked).toEqual([]);
    show('visible');
    await jest.advanceTimersByTimeAsync(1000);
    expect(asked().sort()).toEqual(['GET autostop', 'GET spend']);
  });

  it('knows where a node was looked for last, and tells of a new place', () => {
    const told = jest.fn();
    model.stateChanged.connect(told);
    model.chooseZone('us-east1-d');
    model.chooseZone('us-east1-d');
    expect(told).toHaveBeenCalledTimes(1);
    expect(model.chosenZone).toBe('us-east1-d');
  });

  it('tells the time by the clock of the server', () => {
    expect(serverNow({ data: {}, server_s: 1000, received_ms: 5000 }, 7000)).toBe(1002);
  });
});

describe('the commands of money', () => {
  let commands: CommandRegistry;
  const attempted: string[] = [];
  const nodes = {
    status: null,
    list: null as IDatedList | null,
    refresh: jest.fn(() => Promise.resolve()),
    dismissRefusals: jest.fn(),
    attempt: async (nodeId: string, send: () => Promise<unknown>): Promise<void> => {
      attempted.push(nodeId);
      await send();
    }
  };

  beforeEach(() => {
    commands = new CommandRegistry();
    addMoneyCommands({
      commands,
      model,
      nodes,
      trans,
      showPanel: () => undefined,
      locate: args => args
    });
  });

  it('each have a label and say what arguments they take', async () => {
    for (const id of Object.values(MoneyCommandIDs)) {
      expect(commands.label(id)).not.toBe('');
      expect((await commands.describedBy(id)).args).toMatchObject({ type: 'object' });
    }
  });

  it('keep a node, and ask again', async () => {
    server.answers['POST nodes/us-central1-a/my-node/extend'] = () => reply(autostop());
    const key = { zone: 'us-central1-a', node_id: 'my-node' };
    await commands.execute(MoneyCommandIDs.keepRunning, { ...key, for_s: 3600 });
    expect(server.asked[0].body).toEqual({ for_s: 3600 });
    expect(asked()).toContain('GET autostop');
  });

  it('queue and search as new attempts of that name', async () => {
    server.answers['POST queue'] = () => reply({}, 202);
    server.answers['POST searches'] = () => reply({}, 202);
    await commands.execute(MoneyCommandIDs.queue, { terms: { node_id: 'a' } });
    await commands.execute(MoneyCommandIDs.search, { terms: { node_id: 'b' } });
    expect(attempted).toEqual(['a', 'b']);
    expect(asked()).toEqual(expect.arrayContaining(['POST queue', 'POST searches']));
  });

  it('show a section, with the keyboard focus moved there', async () => {
    server.answers['GET quota'] = () => reply({ limits: [limit()] });
    const args = { section: 'quota', zone: 'us-east1-d' };
    await commands.execute(MoneyCommandIDs.showSection, args);
    await commands.execute(MoneyCommandIDs.showSection, args);
    expect(model.open.has('quota')).toBe(true);
    expect(model.chosenZone).toBe('us-east1-d');
    expect(model.revealed).toEqual({ section: 'quota', turn: 2 });
    await commands.execute(MoneyCommandIDs.showSection, { section: 'constructor' });
    expect(model.revealed?.turn).toBe(2);
  });

  it('raise a budget by its amount only', async () => {
    const week = budget({ name: 'week' });
    server.answers['GET spend'] = () => reply(spend({ budgets: [week] }));
    server.answers[`PUT budgets/${week.name}`] = () => reply({});
    const answer = commands.execute(MoneyCommandIDs.raiseBudget, { name: week.name });
    const raise = await screen.findByText('Raise');
    const input = document.querySelector<HTMLInputElement>('.jp-Dialog input');
    expect(input?.value).toBe(String(week.amount));
    fireEvent.change(input as HTMLInputElement, { target: { value: '500' } });
    fireEvent.click(raise);
    expect(await answer).toBe(true);
    const sent = server.asked.find(({ method }) => method === 'PUT');
    expect(sent?.body).toEqual({ ...budgetTermsOf(week), amount: 500 });
  });

  it('ask before a budget that is set below its use ends nodes', async () => {
    const day = budget({ name: 'day', amount: 20, used: 21, unwatched: 2, action: 'stop-all' });
    server.answers['GET spend'] = () => reply(spend({ budgets: [day] }));
    server.answers['PUT budgets/day'] = () => reply({});
    nodes.list = list({ nodes: [node('training')] });
    const raiseTo = async (amount: string, label: string): Promise<string> => {
      const answer = commands.execute(MoneyCommandIDs.raiseBudget, { name: 'day' });
      const raise = await screen.findByText('Raise');
      const input = document.querySelector('.jp-Dialog input') as HTMLInputElement;
      fireEvent.change(input, { target: { value: amount } });
      fireEvent.click(raise);
      await screen.findByText('Stop or delete these nodes now');
      const button = screen.getByText(label);
      const question = document.querySelector('.jp-Dialog-body')?.textContent ?? '';
      fireEvent.click(button);
      await answer;
      return question;
    };

    const question = await raiseTo('20.5', 'Cancel');
    expect(question).toContain('This amount may already be used.');
    expect(question).toContain('training');
    expect(asked()).not.toContain('PUT budgets/day');

    await raiseTo('15', 'Stop or delete these nodes now');
    expect(asked()).toContain('PUT budgets/day');
    nodes.list = null;
  });

  it('keep no node running that ends already', async () => {
    await model.refresh();
    const key = { zone: 'us-central1-a', node_id: 'my-node', onCard: true };
    const isOffered = (): boolean => commands.isVisible(MoneyCommandIDs.keepRunning, key);
    nodes.list = list({ nodes: [node('my-node')] });
    expect(isOffered()).toBe(true);
    nodes.list = list({
      nodes: [node('my-node')],
      intents: [intent('my-node', { verb: 'delete' })]
    });
    expect(isOffered()).toBe(false);
    nodes.list = null;
  });

  it.each([
    [20, 21.29, '40'],
    [0.1, 0.3, '0.4'],
    [10, 10, '20']
  ])('propose for a budget of %s with %s used %s', async (amount, used, proposed) => {
    const over = budget({ name: 'day', amount, used });
    server.answers['GET spend'] = () => reply(spend({ budgets: [over] }));
    const answer = commands.execute(MoneyCommandIDs.raiseBudget, { name: 'day' });
    const cancel = await screen.findByText('Cancel');
    expect(document.querySelector<HTMLInputElement>('.jp-Dialog input')?.value).toBe(proposed);
    fireEvent.click(cancel);
    await answer;
  });

  it.each([
    [MoneyCommandIDs.setBudget, 'PUT'],
    [MoneyCommandIDs.removeBudget, 'DELETE']
  ])('%s forgets what the budget refused, and asks again', async (id, verb) => {
    server.answers[`${verb} budgets/b`] = () => reply({});
    nodes.refresh.mockClear();
    await commands.execute(id, { name: 'b', terms: {} });
    expect(nodes.dismissRefusals).toHaveBeenCalledWith('budget_exceeded');
    expect(nodes.refresh).toHaveBeenCalledTimes(1);
    expect(asked()).toContain('GET spend');
  });

  it('show the budgets when one of that name cannot be raised', async () => {
    await commands.execute(MoneyCommandIDs.raiseBudget, { name: 'nobody' });
    expect(model.revealed?.section).toBe('spend');
  });

  it('escape what is named in routes', async () => {
    server.answers['DELETE budgets/a%2Fb'] = () => new Response(null, { status: 204 });
    await commands.execute(MoneyCommandIDs.removeBudget, { name: 'a/b' });
    expect(asked()[0]).toBe('DELETE budgets/a%2Fb');
  });

  it('throw what is refused', async () => {
    server.answers['PUT budgets/b'] = () => reply({ error: STOCKOUT }, 400);
    const refused = commands.execute(MoneyCommandIDs.setBudget, { name: 'b', terms: {} });
    await expect(refused).rejects.toThrow(STOCKOUT.message);
  });

  it.each([
    [MoneyCommandIDs.cleanup, { names: [NODE] }],
    [MoneyCommandIDs.stopAll, {}],
    [MoneyCommandIDs.removeQueued, { zone: 'us-central1-a', queued_id: 'q' }]
  ])('%s asks first', async (id, args) => {
    const answer = commands.execute(id, args);
    fireEvent.click(await screen.findByText('Cancel'));
    expect(await answer).toBeFalsy();
    expect(asked().filter(one => !one.startsWith('GET'))).toEqual([]);
  });

  it('stop everything after naming the nodes and how each ends', async () => {
    const intents = [
      intent('new'),
      intent('started', { verb: 'start' }),
      intent('a', { verb: 'delete' }),
      intent('done', { settled: true })
    ];
    const billed = [node('a'), node('b', { spot: true }), node('c')];
    const started = node('started', { state: 'STOPPED', billing: false });
    nodes.list = list({ nodes: [...billed, started], intents });
    const answer = commands.execute(MoneyCommandIDs.stopAll);
    await screen.findByText('Stop everything?');
    screen.getByText(
      'Will be stopped (disk and files are kept): a in us-central1-a, c in us-central1-a, started in us-central1-a.'
    );
    screen.getByText(
      'Will be deleted with disk and files: b in us-central1-a, new in us-central1-a.'
    );
    screen.getByText('Stop everything');
    fireEvent.click(screen.getByText('Cancel'));
    await answer;
  });

  it('stop everything without a second question', async () => {
    server.answers['POST stop-all'] = () => reply({ results: [] });
    await commands.execute(MoneyCommandIDs.stopAll, { isConfirmed: true });
    expect(asked()[0]).toBe('POST stop-all');
  });

  it('delete what was agreed to', async () => {
    server.answers['POST cleanup'] = () =>
      reply({ results: [{ name: NODE, ok: true, error: null }] });
    const answer = commands.execute(MoneyCommandIDs.cleanup, { names: [NODE] });
    fireEvent.click(await screen.findByText('Delete'));
    expect(await answer).toEqual({ results: [{ name: NODE, ok: true, error: null }] });
    expect(server.asked[0].body).toEqual({ names: [NODE] });
  });
});

describe('words about money', () => {
  it.each([
    [-5, '0 s'],
    [42, '42 s'],
    [8 * 60, '8 min'],
    [80 * 60, '1 h 20 min'],
    [7200, '2 h'],
    [3 * 86_400, '3 d']
  ])('say %s seconds as %s', (seconds, text) => {
    expect(formatDuration(seconds, trans)).toBe(text);
  });

  it('never take an unknown price for nothing', () => {
    const unknown = spend({ usd_per_hour: null, unpriced: ['v9-8'] });
    const nodes = [null, 9.6].map(usd_per_hour => ({
      ...{ name: NODE, node_id: 'my-node', zone: 'us-central1-a', spot: false },
      ...{ accelerator_type: 'v5litepod-8', provisioning: 'on-demand' as const },
      ...{ usd_per_hour, price_source: null, ready_s: 0, usd: null, is_open: true, unwatched_s: 0 }
    }));
    expect(isBilled(unknown)).toBe(true);
    expect(formatRate(unknown, trans)).toBe('price unknown');
    expect(formatRate({ ...unknown, nodes }, trans)).toBe('at least $9.60 per hour');
    expect(formatMoney({ usd: null, known_usd: 2 }, trans)).toBe('at least $2.00');
    expect(formatMoney({ usd: null, known_usd: 0 }, trans)).toBe('cost unknown');
    expect(isBilled(spend({ usd_per_hour: 0 }))).toBe(false);
    expect(totalCost([item({ usd_per_hour: null })], trans)).toMatch(/prices are unknown/);
  });

  it('say when and how a node ends', () => {
    expect(autostopSummary(autostop(), 1000, trans)).toBe('Auto-delete in 42 min · idle');
    const soon = autostop({ node_id: 'soon', ends_at: 1001 });
    expect(nextToStop([autostop({ ends_at: null }), autostop(), soon])?.node_id).toBe('soon');
  });

  it.each([
    [{ verdict: 'busy', action: 'stop' }, 'In use · auto-stop 1 h after it becomes idle'],
    [{ verdict: 'busy', idle_after_s: 14400 }, 'In use · auto-delete 4 h after it becomes idle'],
    [
      { verdict: 'unknown', action: 'stop', idle_after_s: 1800 },
      'Activity unknown (treated as busy) · auto-stop 30 min after it becomes idle'
    ],
    [{ verdict: 'busy', idle_after_s: null }, 'Auto-stop is off'],
    [
      { verdict: 'busy', idle_after_s: null, session_s: 3600 },
      'No auto-stop while the current cell runs'
    ]
  ] as const)('say what ends a node in use: %j', (rules, text) => {
    expect(autostopSummary(autostop({ ends_at: null, ...rules }), 1000, trans)).toBe(text);
  });

  it('find unused limits with room where a node is looked for', () => {
    const zone = limit({ used: 0, location: 'us-east1-d' });
    const region = limit({ used: 0, scope: 'region', location: 'us-east1' });
    const nothing = limit({ used: 0, limit: 0, location: 'us-east1-d' });
    const elsewhere = limit({ used: 0, location: 'us-west4-a' });
    const all = [limit(), zone, region, nothing, elsewhere];
    expect(limitsWithRoom(all, '')).toEqual([]);
    expect(limitsWithRoom(all, 'us-east1-d')).toEqual([zone, region]);
  });

  it('count the end of a node down, with a reason that has a time', () => {
    const soon = { idle_s: 3300, action: 'stop', ends_at: 1252 } as const;
    const said = (rest: object): string =>
      autostopCountdown(autostop({ ...soon, ...rest }), 1000, 990, trans);
    expect(said({})).toBe('Auto-stop in 4:12 · idle for 55 min');
    expect(said({ ends_at: 1000 })).toBe('Stopping now · idle for 55 min');
    expect(said({ ends_why: 'session', session_s: 43_200, action: 'delete' })).toBe(
      'Auto-delete in 4:12 · maximum session length of 12 h'
    );
    expect(said({ ends_why: 'budget' })).toBe('Auto-stop in 4:12 · budget used up');
  });

  it('read errors of any shape', () => {
    expect(['no', { message: 'no' }, null, 5, { message: 5 }].map(errorText)).toEqual([
      ...['no', 'no', '', '', '']
    ]);
    expect(formatDetail({ a: 'x', b: 2, c: null })).toBe('a: x\nb: 2');
  });
});

describe('a search', () => {
  const offers = {
    ...OFFERS,
    zones: {
      'us-east1-d': OFFERS.zones['us-east1-d'],
      'us-central1-a': [offer('v5litepod-1', { chips: 1 }), offer('v5litepod-8')],
      'us-west4-a': [offer('v5litepod-8')]
    }
  };
  const spec: INodeSpec = { ...OFFERS.default, node_id: 'a', spot: true };

  it('knows where else the same could be had, the nearest to the wish first', () => {
    expect(candidatesFor(offers, spec).map(({ zone }) => zone)).toEqual([
      ...['us-central1-a', 'us-west4-a', 'us-east1-d']
    ]);
  });

  it('accepts the chosen type everywhere and another only where the user says so', () => {
    const zones = (toggled: string[]): string[] =>
      searchTerms(offers, spec, { ...WAY_DRAFT, toggled: new Set(toggled) }).candidates.map(
        ({ zone }) => zone
      );
    expect(zones([])).toEqual(['us-central1-a', 'us-west4-a']);
    expect(zones(['us-east1-d/v6e-8', 'us-west4-a/v5litepod-8'])).toEqual([
      ...['us-central1-a', 'us-east1-d']
    ]);
  });

  it('uses a runtime version that the other type has', () => {
    const other = candidatesFor(offers, spec)[2];
    expect(other).toMatchObject({ runtime_version: 'v2-alpha-tpuv6e', spot: true });
  });
});

describe('the terms of a wish', () => {
  const spec: INodeSpec = { ...OFFERS.default, node_id: 'a', spot: false };

  it('say nothing that goes without saying', () => {
    expect(
      nowTerms({ ...spec, provisioning: 'on-demand', internal_ips: false }, WAY_DRAFT)
    ).toEqual(spec);
  });

  it('go with a search too', () => {
    const wish = { ...spec, provisioning: 'reserved', internal_ips: true } as const;
    expect(candidatesFor(OFFERS, wish)[0]).toMatchObject({
      ...{ spot: false, provisioning: 'reserved', internal_ips: true }
    });
  });

  it('of flex-start are its run time, in the queue', () => {
    const wish = { ...spec, provisioning: 'flex-start' } as const;
    const draft = { ...WAY_DRAFT, runHours: '1.5' };
    expect(wayOf(wish, draft)).toBe('queue');
    expect(queueTerms(wish, draft)).toEqual({ ...wish, valid_for_s: 21_600, run_for_s: 5400 });
  });

  it('of a reservation are its id, in the queue', () => {
    const wish = { ...spec, provisioning: 'reserved' } as const;
    const draft = { ...WAY_DRAFT, reservation: ' mine ' };
    expect(queueTerms(wish, draft)).toMatchObject({
      provisioning: 'reserved',
      reservation: 'mine'
    });
    expect(queueTerms(spec, draft)).not.toHaveProperty('reservation');
  });

  it.each([
    ['', null],
    ['x', null],
    ['0', null],
    ['169', null],
    ['168', 604_800]
  ])('take %j hours for %s seconds', (runHours, seconds) => {
    expect(runTime({ ...WAY_DRAFT, runHours })).toBe(seconds);
  });
});
