import { Event as ServerEvent } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { WARNING_S, withWarnings } from '../autostop/rules';
import { TpuModel } from '../model';
import { MoneyClient } from '../money/client';
import { MoneyModel } from '../money/model';
import { MoneyCommandIDs } from '../money/tokens';
import { TpuClient } from '../request';
import { autostopDefaults, formDefaults, NewNodeRules } from '../settings/newnodes';
import { DEFAULT_SETTINGS, TpuSettings } from '../settings/settings';
import { applySettings } from '../surfaces/plugins';
import { list, node, OFFERS } from './fixtures';
import { autostop, spend } from './moneyfixtures';
import { reply, Server } from './server';

declare const __dirname: string;

const { readFileSync } = jest.requireActual<{
  readFileSync: (path: string, encoding: string) => string;
}>('fs');

interface ISchema {
  readonly properties: { readonly [name: string]: { readonly default: unknown } };
}

const SPEC = {
  ...{ node_id: 'a', zone: 'us-central1-a', accelerator_type: 'v5litepod-8' },
  ...{ runtime_version: 'v2-alpha-tpuv5-lite', spot: false }
};

/** A settings registry with one plugin, whose values a test changes. */
class Registry {
  readonly changed = new Signal<object, void>({});
  composite: object = {};

  load(): Promise<this> {
    return Promise.resolve(this);
  }

  set(values: object): void {
    this.composite = values;
    this.changed.emit();
  }
}

describe('settings', () => {
  let server: Server;
  let nodes: TpuModel;
  let money: MoneyModel;
  let settings: TpuSettings;
  let registry: Registry;

  beforeEach(async () => {
    server = new Server();
    server.answers['GET status'] = () => reply({ project: 'demo-project', error: null });
    server.answers['GET nodes'] = () => reply(list({ nodes: [node('a')] }));
    server.answers['GET offers'] = () => reply(OFFERS);
    server.answers['POST nodes'] = () => reply({}, 202);
    server.answers['GET spend'] = () => reply(spend());
    const client = new TpuClient(server.settings);
    const events = new Signal({}) as unknown as ServerEvent.Stream;
    nodes = new TpuModel(client, events);
    money = new MoneyModel(new MoneyClient(client), events);
    settings = new TpuSettings();
    settings.changed.connect(() => applySettings(settings, nodes, money));
    registry = new Registry();
    await settings.follow(registry as unknown as ISettingRegistry, 'jupyter-tpu:settings');
  });

  afterEach(() => {
    nodes.dispose();
    money.dispose();
  });

  it('have the defaults of the schema', () => {
    const schema = readFileSync(`${__dirname}/../../schema/settings.json`, 'utf-8');
    const { properties } = JSON.parse(schema) as ISchema;
    const defaults = Object.entries(properties).map(([name, one]) => [name, one.default]);
    expect(Object.fromEntries(defaults)).toEqual(DEFAULT_SETTINGS);
  });

  it('are the defaults of a new node', () => {
    expect(nodes.formDefaults).toEqual({});
    registry.set({ zone: 'us-west4-a', acceleratorType: 'v5litepod-4', provisioning: 'spot' });
    expect(nodes.formDefaults).toEqual({
      ...{ zone: 'us-west4-a', accelerator_type: 'v5litepod-4', provisioning: 'spot', spot: true }
    });
  });

  it('leave to the server what they do not say', () => {
    expect(formDefaults(DEFAULT_SETTINGS)).toEqual({});
    expect(autostopDefaults(DEFAULT_SETTINGS)).toBeNull();
    expect(autostopDefaults({ ...DEFAULT_SETTINGS, idleMinutes: 30, sessionHours: 1.5 })).toEqual({
      ...{ idle_after_s: 1800, session_s: 5400 }
    });
  });

  it('set the auto-stop of nodes that are created here, once they are listed, and of no others', async () => {
    const asked: object[] = [];
    const commands = new CommandRegistry();
    commands.addCommand(MoneyCommandIDs.setAutostop, { execute: args => asked.push(args) });
    const rules = new NewNodeRules(nodes, settings, commands, jest.fn());
    nodes.nodeCreated.connect(rules.onCreated);
    nodes.stateChanged.connect(rules.onChange);
    const listed = (count: number): Promise<void> =>
      new Promise(resolve => {
        const check = (): void => void (nodes.list?.nodes.length === count && resolve());
        nodes.stateChanged.connect(check);
      });
    nodes.start();
    await listed(1);
    registry.set({ idleMinutes: 30 });
    await nodes.createNode({ ...SPEC, node_id: 'b' });
    expect(asked).toEqual([]);
    server.answers['GET nodes'] = () => reply(list({ nodes: [node('a'), node('b')] }));
    void nodes.refresh();
    await listed(2);
    nodes.dismissRefusal(node('b')); // another change of the same list
    expect(asked).toEqual([{ zone: 'us-central1-a', node_id: 'b', idle_after_s: 1800 }]);
  });

  it('set the auto-stop of nodes that are searched or queued for, and of none that is refused', async () => {
    const asked: object[] = [];
    const commands = new CommandRegistry();
    commands.addCommand(MoneyCommandIDs.setAutostop, { execute: args => asked.push(args) });
    commands.addCommand(MoneyCommandIDs.queue, { execute: () => null });
    const refuse = (): Promise<never> => Promise.reject(new Error('refused'));
    commands.addCommand(MoneyCommandIDs.search, { execute: refuse });
    const rules = new NewNodeRules(nodes, settings, commands, jest.fn());
    commands.commandExecuted.connect(rules.onExecuted);
    registry.set({ sessionHours: 1 });
    await commands.execute(MoneyCommandIDs.queue, { terms: { node_id: 'a', zone: SPEC.zone } });
    await commands.execute(MoneyCommandIDs.search, { terms: { node_id: 'b' } }).catch(() => null);
    server.answers['GET nodes'] = () => reply(list({ nodes: [node('a'), node('b')] }));
    const listed = new Promise<void>(resolve => {
      nodes.stateChanged.connect(() => nodes.list?.nodes.length === 2 && resolve());
    });
    nodes.start();
    await listed;
    rules.onChange();
    expect(asked).toEqual([{ ...{ zone: SPEC.zone, node_id: 'a' }, session_s: 3600 }]);
  });

  it('hide sections of the panel, which are then not requested; an action shows one anyway', () => {
    registry.set({ sections: { quota: false, spend: true } });
    expect(money.isShown('quota')).toBe(false);
    expect(money.isShown('spend')).toBe(true);
    expect(money.isShown('audit')).toBe(true);
    money.reveal('quota');
    expect(money.isShown('quota')).toBe(true);
  });

  it('set how early a node warns, at most half of its idle timeout', () => {
    const left = (ends_at: number, warning_s: number, idle_limit_s = 3600): boolean => {
      const one = autostop({ ends_at, ends_why: 'idle', idle_limit_s });
      const data = { as_of: 1000, nodes: [one] };
      const dated = { data, server_s: 1000, received_ms: 0 };
      const { nodes } = withWarnings({ dated, problem: null }, warning_s).dated!.data;
      return nodes[0].is_warning;
    };
    expect(left(1000 + 599, WARNING_S)).toBe(true);
    expect(left(1000 + 601, WARNING_S)).toBe(false);
    expect(left(1000 + 601, 1200)).toBe(true);
    expect(left(1000 + 599, WARNING_S, 600)).toBe(false);
    expect(left(1000 + 1, 0)).toBe(false);
  });

  it('change the warnings that are shown at once, and the interval of requests', async () => {
    const soon = autostop({ ends_at: Date.now() / 1000 + 900, ends_why: 'session' });
    server.answers['GET autostop'] = () => reply({ as_of: 1, nodes: [soon] });
    await money.refresh();
    const isWarning = (): boolean => money.parts.autostops.dated!.data.nodes[0].is_warning;
    expect(isWarning()).toBe(false);
    registry.set({ warnMinutes: 20, refreshSeconds: 600 });
    expect(isWarning()).toBe(true);
    expect(nodes.interval_ms).toBe(600_000);
    expect(money.interval_ms).toBe(600_000);
  });

  it('are the defaults where there are none', async () => {
    const none = new TpuSettings();
    const broken = { load: () => Promise.reject(new Error('no such plugin')) };
    await none.follow(broken as unknown as ISettingRegistry, 'jupyter-tpu:settings');
    expect(none.values).toEqual(DEFAULT_SETTINGS);
  });
});
