import { Event } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { TpuModel } from '../model';
import { TpuClient } from '../request';
import { FLEET_SCHEMA, IDatedList } from '../tokens';
import { intent, list, node, OFFERS, STOCKOUT } from './fixtures';
import { reply, Server, until } from './server';

const KEY = { zone: 'us-central1-a', node_id: 'a' };
const STATUS = {
  project: 'demo-project',
  endpoint: '',
  emulated: true,
  switchboard: true,
  trial: false,
  version: '',
  error: null
};

describe('the model', () => {
  let server: Server;
  let model: TpuModel;
  let events: Signal<Event.IManager, Event.Emission>;

  function nodesAre(now: Partial<IDatedList>): void {
    server.answers['GET nodes'] = () => reply(list(now));
  }

  beforeEach(() => {
    server = new Server();
    server.answers['GET status'] = () => reply(STATUS);
    nodesAre({});
    events = new Signal<Event.IManager, Event.Emission>({} as Event.IManager);
    model = new TpuModel(new TpuClient(server.settings), events as unknown as Event.Stream);
  });

  afterEach(() => {
    model.dispose();
    jest.useRealTimers();
  });

  it('asks nothing before it is started', () => {
    expect(server.asked).toEqual([]);
    expect(model.phase).toBe('loading');
  });

  it('asks once when it is started, though nobody watches', async () => {
    nodesAre({ nodes: [node('a')] });
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    expect(model.phase).toBe('answered');
    expect(model.status?.emulated).toBe(true);
    expect(model.findNode(KEY)?.state).toBe('READY');
  });

  it('asks again when the server tells of a change', async () => {
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    nodesAre({ nodes: [node('a')] });
    events.emit({ schema_id: FLEET_SCHEMA });
    await until(model.stateChanged, () => model.list?.nodes.length === 1);
  });

  it('asks nothing while the page is hidden, and at once when it is visible again', async () => {
    const hidden = jest.spyOn(document, 'hidden', 'get').mockReturnValue(false);
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    hidden.mockReturnValue(true);
    const asked = server.asked.length;
    nodesAre({ nodes: [node('a')] });
    events.emit({ schema_id: FLEET_SCHEMA });
    await new Promise(resolve => setTimeout(resolve, 600));
    expect(server.asked).toHaveLength(asked);
    hidden.mockReturnValue(false);
    document.dispatchEvent(new window.Event('visibilitychange'));
    await until(model.stateChanged, () => model.list?.nodes.length === 1);
    hidden.mockRestore();
  });

  it('asks nothing by its timer while the page is hidden, and once when it is visible again', async () => {
    const hidden = jest.spyOn(document, 'hidden', 'get').mockReturnValue(false);
    const state = jest.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
    const show = (isHidden: boolean): void => {
      hidden.mockReturnValue(isHidden);
      state.mockReturnValue(isHidden ? 'hidden' : 'visible');
      document.dispatchEvent(new window.Event('visibilitychange'));
    };
    model.isWatched = true;
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    jest.useFakeTimers();
    await model.refresh();
    await jest.advanceTimersByTimeAsync(100);
    show(true);
    const asked = server.asked.length;
    await jest.advanceTimersByTimeAsync(60_000);
    expect(server.asked).toHaveLength(asked);
    show(false);
    await jest.advanceTimersByTimeAsync(1000);
    expect(server.asked).toHaveLength(asked + 1);
    jest.useRealTimers();
    hidden.mockRestore();
    state.mockRestore();
  });

  it('does not ask for the sake of other events', async () => {
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    const asked = server.asked.length;
    jest.useFakeTimers();
    events.emit({ schema_id: 'https://events.jupyter.org/jupyter_server/contents_service/v1' });
    events.emit({ schema_id: FLEET_SCHEMA, kind: 'activity' });
    await jest.advanceTimersByTimeAsync(5000);
    expect(server.asked).toHaveLength(asked);
    events.emit({ schema_id: FLEET_SCHEMA });
    await jest.advanceTimersByTimeAsync(5000);
    expect(server.asked.length).toBeGreaterThan(asked);
  });

  it('lets the server ask the cloud when the user refreshes, and says so meanwhile', async () => {
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    let answer: (response: Response) => void = () => undefined;
    server.answers['POST refresh'] = () => new Promise(resolve => (answer = resolve));
    const refreshed = model.refreshFromCloud();
    expect(model.isRefreshing).toBe(true);
    await model.refreshFromCloud(); // a second click asks nothing
    const before = model.list;
    model.isWatched = true; // a poll in between is answered with what the server had
    await until(model.stateChanged, () => model.list !== before);
    expect(model.list?.nodes).toEqual([]);
    answer(reply(list({ nodes: [node('a')] })));
    await refreshed;
    expect(model.isRefreshing).toBe(false);
    expect(model.list?.nodes).toHaveLength(1);
    expect(server.asked.filter(({ route }) => route === 'refresh')).toHaveLength(1);
  });

  it('shows why the cloud could not be asked', async () => {
    server.answers['POST refresh'] = () => reply({ error: STOCKOUT }, 503);
    await model.refreshFromCloud();
    expect([model.isRefreshing, model.problem?.code]).toEqual([false, STOCKOUT.code]);
  });

  it('asks when somebody begins to watch', async () => {
    model.isWatched = true;
    await until(model.stateChanged, () => model.list !== null);
  });

  it('says when a kernelspec has come, and only then', async () => {
    const told = counted(model.kernelspecsChanged);
    nodesAre({ nodes: [node('a', { state: 'CREATING', kernelspec: null })] });
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    expect(told.count).toBe(0);
    nodesAre({ nodes: [node('a')] });
    model.isWatched = true;
    await until(model.stateChanged, () => model.findNode(KEY)?.state === 'READY');
    expect(told.count).toBe(1);
  });

  it('keeps the last list when the server fails, and says why', async () => {
    nodesAre({ nodes: [node('a')] });
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    server.answers['GET nodes'] = () => reply({ error: STOCKOUT }, 503);
    model.isWatched = true;
    await until(model.stateChanged, () => model.problem !== null);
    expect(model.list?.nodes).toHaveLength(1);
    expect(model.problem).toEqual(STOCKOUT);
  });

  it('notices that the server extension is missing', async () => {
    delete server.answers['GET status'];
    model.start();
    await until(model.stateChanged, () => model.phase === 'missing');
  });

  it('sends one act for two clicks', async () => {
    server.answers['POST nodes/us-central1-a/a/stop'] = () => reply({}, 202);
    const first = model.stopNode(KEY);
    const second = model.stopNode(KEY);
    expect(model.busy.has('us-central1-a/a')).toBe(true);
    await Promise.all([first, second]);
    expect(server.asked.filter(asked => asked.method === 'POST')).toHaveLength(1);
    expect(model.busy.size).toBe(0);
  });

  it('keeps a refusal with its node until it is dismissed', async () => {
    server.answers['DELETE nodes/us-central1-a/a'] = () => reply({ error: STOCKOUT }, 409);
    await model.deleteNode(KEY);
    expect(model.refusals.get('us-central1-a/a')).toEqual(STOCKOUT);
    model.dismissRefusal(KEY);
    expect(model.refusals.size).toBe(0);
  });

  it('asks for offers when the form is opened, and closes it when the node is accepted', async () => {
    server.answers['GET offers'] = () => reply(OFFERS);
    server.answers['POST nodes'] = () => reply({}, 202);
    model.openForm();
    await until(model.stateChanged, () => model.offers !== null);
    await model.createNode({ ...OFFERS.default, node_id: 'a', spot: false });
    expect(model.isFormOpen).toBe(false);
  });

  it('dismisses earlier failures of the same name once a new attempt is accepted', async () => {
    const failed = { settled: true, error: STOCKOUT };
    const intents = [intent('a', failed), intent('b', failed), intent('a', { verb: 'stop' })];
    server.answers['GET nodes'] = () => reply(list({ intents }));
    server.answers['DELETE intents/intent-a'] = () => reply({}, 200);
    model.start();
    await until(model.stateChanged, () => model.list !== null);
    server.answers['POST nodes'] = () => reply({ error: STOCKOUT }, 503);
    const spec = { ...OFFERS.default, zone: 'us-east1-d', node_id: 'a', spot: false };
    await expect(model.createNode(spec)).rejects.toMatchObject({ problem: STOCKOUT });
    const dismissed = (): string[] =>
      server.asked.filter(({ method }) => method === 'DELETE').map(({ route }) => route);
    expect(dismissed()).toEqual([]);

    server.answers['POST nodes'] = () => reply({}, 202);
    await model.createNode(spec);

    expect(dismissed()).toEqual(['intents/intent-a']);
  });

  it('leaves the form open when the node is refused', async () => {
    server.answers['POST nodes'] = () => reply({ error: STOCKOUT }, 503);
    model.openForm();
    const created = model.createNode({ ...OFFERS.default, node_id: 'a', spot: false });
    await expect(created).rejects.toMatchObject({ problem: STOCKOUT });
    expect(model.isFormOpen).toBe(true);
  });
});

function counted(signal: ISignal<unknown, unknown>): { count: number } {
  const told = { count: 0 };
  signal.connect(() => told.count++);
  return told;
}
