import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { ISetup, ISetupStep, IStatus } from '../api.generated';
import { TpuModel } from '../model';
import { asProblem, TpuClient } from '../request';
import { ISetupActions } from '../setup/lines';
import { IStorage, SetupModel } from '../setup/model';
import { SetupSection } from '../setup/section';
import { INodeKey } from '../tokens';
import { list, node, trans } from './fixtures';
import { reply, Server, until } from './server';

const STATUS: IStatus = {
  project: 'mine',
  endpoint: '',
  emulated: false,
  switchboard: false,
  trial: false,
  version: '',
  error: null
};

function step(key: ISetupStep['key'], more: Partial<ISetupStep> = {}): ISetupStep {
  const texts = { text: `${key}.`, action: '', does: '', command: '', target: '' } as const;
  return { key, state: 'done', ...texts, error: null, templates: {}, arguments: {}, ...more };
}

const MISSING: ISetup = {
  is_complete: false,
  steps: [
    step('credentials', {
      state: 'to_do',
      text: 'No Google Cloud credentials were found.',
      action: 'use_credentials',
      does: 'Uses this file.',
      command: 'gcloud auth application-default login'
    }),
    step('project', { state: 'unknown' }),
    step('api', { state: 'unknown' }),
    step('quota', { state: 'unknown' }),
    step('budget', { state: 'unknown' })
  ]
};

function storage(): IStorage {
  const known = new Map<string, string>();
  return {
    getItem: name => known.get(name) ?? null,
    setItem: (name, value) => void known.set(name, value)
  };
}

function actions(): jest.Mocked<ISetupActions & { onOpenNotebook: (key: INodeKey) => void }> {
  return {
    onPerform: jest.fn(),
    onCopy: jest.fn(),
    onCheck: jest.fn(),
    onOpenForm: jest.fn(),
    onStartTrial: jest.fn(),
    onEndTrial: jest.fn(),
    onOpenNotebook: jest.fn()
  };
}

interface IWorld {
  server: Server;
  nodes: TpuModel;
  model: SetupModel;
}

const worlds: IWorld[] = [];

afterEach(() => {
  cleanup();
  worlds.splice(0).forEach(({ model, nodes }) => {
    model.dispose();
    nodes.dispose();
  });
});

async function world(status: Partial<IStatus>, nodes = list(), kept = storage()): Promise<IWorld> {
  const server = new Server();
  server.answers['GET status'] = () => reply({ ...STATUS, ...status });
  server.answers['GET nodes'] = () => reply({ ...nodes, error: status.error ?? nodes.error });
  server.answers['GET setup'] = () => reply(MISSING);
  const client = new TpuClient(server.settings);
  const tpu = new TpuModel(client);
  const made = { server, nodes: tpu, model: new SetupModel(client, tpu, kept) };
  worlds.push(made);
  tpu.isWatched = true;
  tpu.start();
  await until(tpu.stateChanged, () => tpu.phase === 'answered');
  return made;
}

function show(
  { model, nodes }: IWorld,
  given = actions(),
  example: string | null = null
): ReturnType<typeof actions> {
  const { status, list: listed } = nodes;
  const state = { model, status, list: listed, isFormOpen: false, example };
  render(<SetupSection {...state} actions={given} trans={trans} />);
  return given;
}

const NO_CREDENTIALS = { ...asProblem({ code: 'credentials_missing' }), status: 401 };

describe('The first steps', () => {
  it('begin with the connection where there are no credentials, also after they were done', async () => {
    const empty = list({ nodes: [] });
    const { model } = await world({ error: NO_CREDENTIALS }, empty);
    expect(model.firstStep).toBe('connect');
    model.hideFirstSteps();
    expect(model.firstStep).toBe('connect');
  });

  it('lead to a node, then to a notebook, and vanish with the first kernel on a node', async () => {
    const kept = storage();
    const without = await world({}, list({ nodes: [], intents: [] }), kept);
    expect(without.model.firstStep).toBe('create');
    const specced = node('a', { kernelspec: 'tpu-a' });
    const { model } = await world({}, list({ nodes: [specced] }), kept);
    expect(model.firstStep).toBe('notebook');
    model.onKernels(['python3']);
    expect(model.firstStep).toBe('notebook');
    model.onKernels(['python3', 'tpu-a']);
    expect(model.firstStep).toBe('none');
    expect((await world({}, list({ nodes: [] }), kept)).model.firstStep).toBe('none');
  });

  it('leave the button that opens a notebook to the card of the node', async () => {
    show(await world({}, list({ nodes: [node('a', { kernelspec: 'tpu-a' })] })));
    screen.getByText('Connected');
    screen.getByText(/^Click Open on the node's card below. A new notebook opens/);
    expect(screen.queryAllByRole('button').map(({ textContent }) => textContent)).toEqual([
      'Hide first steps'
    ]);
  });

  it('do not hide an outage', async () => {
    const error = { ...asProblem({ code: 'cloud_unavailable' }), status: 503 };
    expect((await world({ error }, list({ nodes: [] }))).model.firstStep).toBe('none');
  });

  it('offer the emulated cloud, a file and the command, which they show', async () => {
    const made = await world({ error: NO_CREDENTIALS }, list({ nodes: [] }));
    await made.model.check();
    const done = show(made);
    fireEvent.click(screen.getByRole('button', { name: 'Try the emulated cloud' }));
    expect(done.onStartTrial).toHaveBeenCalled();
    fireEvent.click(screen.getByRole('button', { name: 'Copy command' }));
    expect(done.onCopy).toHaveBeenCalledWith('gcloud auth application-default login');
    const use = screen.getByRole('button', { name: 'Use file' });
    fireEvent.click(use);
    expect(done.onPerform).not.toHaveBeenCalled();
    fireEvent.change(screen.getByLabelText(/credentials file/), { target: { value: ' /k.json ' } });
    fireEvent.click(use);
    expect(done.onPerform).toHaveBeenCalledWith(MISSING.steps[0], { path: '/k.json' });
    screen.getByText('gcloud auth application-default login');
    expect(document.body.textContent).not.toMatch(/`/);
    expect(screen.getAllByRole('listitem').filter(({ ariaCurrent }) => ariaCurrent)).toHaveLength(
      0
    );
    expect(document.querySelectorAll('[aria-current="step"]')).toHaveLength(1);
  });
});

describe('The set-up', () => {
  it('keeps a refused action with its step until something else is done', async () => {
    const made = await world({ error: NO_CREDENTIALS }, list({ nodes: [] }));
    await made.model.check();
    made.server.answers['POST setup/use_credentials'] = () =>
      reply({ message: 'no', error: { ...asProblem({ message: 'It can’t be read.' }) } }, 400);
    await made.model.perform(MISSING.steps[0], { path: '/k.json' });
    expect(made.model.failedKey).toBe('credentials');
    show(made);
    expect(screen.getByRole('alert').textContent).toContain('It can’t be read.');
    await act(() => made.model.check());
    expect(made.model.problem).toBeNull();
  });

  it('sends the value of an action', async () => {
    const made = await world({});
    made.server.answers['POST setup/set_budget'] = () => reply({ ...MISSING, is_complete: true });
    await made.model.perform(step('budget', { action: 'set_budget' }), { usd: 50 });
    expect(made.model.setup?.is_complete).toBe(true);
    expect(made.model.problem).toBeNull();
  });

  it('says that the emulated cloud is tried, and leads back', async () => {
    const made = await world({ emulated: true, trial: true });
    const done = show(made);
    fireEvent.click(screen.getByRole('button', { name: 'Back to Google Cloud' }));
    expect(done.onEndTrial).toHaveBeenCalled();
  });

  it('says which notebook the emulated cloud has brought', async () => {
    const made = await world({ emulated: true, trial: true });
    show(made, actions(), 'digits.ipynb');
    screen.getByText(/The example notebook digits\.ipynb is in the file browser's root folder\./);
    cleanup();
    show(made);
    expect(screen.queryByText(/example notebook/)).toBeNull();
  });

  it('reads the cloud again after a switch', async () => {
    const made = await world({ error: NO_CREDENTIALS }, list({ nodes: [] }));
    made.server.answers['POST trial'] = () => reply(STATUS);
    made.server.answers['GET status'] = () => reply({ ...STATUS, emulated: true, trial: true });
    await made.model.startTrial();
    await until(made.nodes.stateChanged, () => made.nodes.status?.trial === true);
    expect(made.server.asked.filter(({ route }) => route === 'trial')).toHaveLength(1);
  });
});
