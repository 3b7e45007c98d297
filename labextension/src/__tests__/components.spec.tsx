import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { IIntent } from '../api.generated';
import { IPanelActions, IPanelState, Panel } from '../components/panel';
import { ICreateExtras } from '../create/chosen';
import { CreateForm } from '../create/createform';
import { DeleteQuestion, StopQuestion } from '../nodes/nodequestions';
import { TpuRequestError } from '../request';
import { IFormRequest, INodeSpec, Verb } from '../tokens';
import { intent, list, node, OFFERS, STOCKOUT, trans } from './fixtures';

const scrollIntoView = Element.prototype.scrollIntoView;

afterEach(() => {
  cleanup();
  Element.prototype.scrollIntoView = scrollIntoView;
});

const HOSTILE = '<img src=x onerror="alert(1)">';

const STATUS = {
  project: 'demo-project',
  endpoint: '',
  emulated: true,
  switchboard: false,
  trial: false,
  version: '',
  error: null
};

function actions(): jest.Mocked<IPanelActions> {
  return {
    onOpenForm: jest.fn(),
    onCloseForm: jest.fn(),
    onCreate: jest.fn(),
    onRefresh: jest.fn(),
    onOpenSimulator: jest.fn(),
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

function panelOf(state: Partial<IPanelState>): React.ComponentProps<typeof Panel> & {
  actions: jest.Mocked<IPanelActions>;
} {
  const whole: IPanelState = {
    phase: 'answered',
    status: STATUS,
    list: list(),
    offers: null,
    problem: null,
    offersProblem: null,
    refusals: new Map(),
    busy: new Set(),
    isFormOpen: false,
    openCards: new Set(),
    revealedCard: null,
    createdNode: null,
    isCollaborative: false,
    isRefreshing: false,
    canOpenSimulator: false,
    ...state
  };
  return { state: whole, actions: actions(), renderers: {}, trans };
}

function show(state: Partial<IPanelState>): jest.Mocked<IPanelActions> {
  const props = panelOf(state);
  render(<Panel {...props} />);
  return props.actions;
}

describe('the panel', () => {
  it('says whose nodes these are and that they are emulated', () => {
    show({});
    screen.getByText('Project demo-project');
    screen.getByText('Emulated cloud');
  });

  it('says nothing of an emulated cloud when the cloud is real', () => {
    show({ status: { ...STATUS, emulated: false } });
    expect(screen.queryByText(/emulated/i)).toBeNull();
  });

  it('says when the cloud answered last, and turns the button while it is asked', () => {
    const noon = new Date(2026, 10, 22, 14, 2, 30);
    jest.useFakeTimers({ now: noon });
    const props = panelOf({ list: list({ age_s: 10, received_ms: noon.getTime() }) });
    const { rerender } = render(<Panel {...props} />);
    screen.getByText(/^Updated (14:02|2:02 PM)$/);
    expect(screen.getByRole('button', { name: 'Refresh the list' }).ariaBusy).not.toBe('true');
    rerender(<Panel {...props} state={{ ...props.state, isRefreshing: true }} />);
    const button = screen.getByRole('button', { name: 'Refreshing from the cloud…' });
    expect(button.getAttribute('aria-busy')).toBe('true');
    jest.useRealTimers();
  });

  it('offers to create a node when there is none', () => {
    const doing = show({});
    screen.getByText('No nodes.');
    fireEvent.click(screen.getAllByRole('button', { name: 'Create a node' })[1]);
    expect(doing.onOpenForm).toHaveBeenCalled();
  });

  it('does not say that there are no nodes when it could not ask', () => {
    show({ list: list({ as_of: null, age_s: null, error: STOCKOUT }) });
    expect(screen.queryByText('No nodes.')).toBeNull();
    screen.getByText(STOCKOUT.message);
  });

  it('gives one clear notice when the server extension is missing', () => {
    const doing = show({ phase: 'missing', list: null, status: null });
    screen.getByText('The jupyter_tpu server extension is not running.');
    fireEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(doing.onRefresh).toHaveBeenCalled();
  });

  it('shows a closed node in two lines: state, name, type, zone, price, and one action', () => {
    const doing = show({ list: list({ nodes: [node('my-node')] }) });
    const card = within(screen.getByRole('listitem'));
    const head = card.getByRole('button', { expanded: false });
    expect(head.textContent).toBe('Readymy-nodev5litepod-8 · us-central1-a$9.60/h');
    expect(head.title).toContain('$0.50 so far');
    expect(card.getAllByRole('button').map(button => button.getAttribute('aria-label'))).toEqual([
      null,
      'More actions on my-node',
      'Open new notebook on my-node'
    ]);
    fireEvent.click(card.getByRole('button', { name: 'Open new notebook on my-node' }));
    expect(doing.onOpenNotebook).toHaveBeenCalledWith(
      expect.objectContaining({ node_id: 'my-node' })
    );
    fireEvent.click(head);
    expect(doing.onToggle).toHaveBeenCalledWith(expect.objectContaining({ node_id: 'my-node' }));
  });

  it('opens the menu of a card where its button is', () => {
    show({ list: list({ nodes: [node('my-node')] }) });
    const asked: (string | undefined)[] = [];
    const listen = (event: Event): void => {
      const card = (event.target as HTMLElement).closest<HTMLElement>('.jp-tpu-Node');
      asked.push(card?.dataset.zone, card?.dataset.nodeId);
    };
    document.addEventListener('contextmenu', listen);
    fireEvent.click(screen.getByRole('button', { name: 'More actions on my-node' }));
    document.removeEventListener('contextmenu', listen);
    expect(asked).toEqual(['us-central1-a', 'my-node']);
  });

  it('shows the details of an open node, and copies what is needed elsewhere', () => {
    const spot = node('my-node', { spot: true, managed: false });
    const doing = show({
      list: list({ nodes: [spot] }),
      openCards: new Set(['us-central1-a/my-node'])
    });
    screen.getByRole('button', { expanded: true });
    ['spot', 'created elsewhere', 'v2-alpha-tpuv5-lite'].forEach(text => screen.getByText(text));
    fireEvent.click(screen.getByRole('button', { name: 'Copy: Name' }));
    fireEvent.click(screen.getByRole('button', { name: 'Copy: SSH command' }));
    expect(doing.onCopy.mock.calls).toEqual([
      ['my-node'],
      ['jupyter tpu ssh my-node --zone us-central1-a']
    ]);
    expect(document.body.textContent).not.toContain('jupyter tpu');
  });

  it('opens no notebook before there is a kernelspec', () => {
    show({ list: list({ nodes: [node('a', { kernelspec: null })] }) });
    const button = screen.getByRole<HTMLButtonElement>('button', {
      name: 'Open new notebook on a'
    });
    expect(button.disabled).toBe(true);
  });

  it('starts what is stopped, recreates what is lost, and deletes what cannot be started', () => {
    const nodes = [
      node('a', { state: 'STOPPED', billing: false }),
      node('b', { state: 'PREEMPTED', billing: false }),
      node('c', { state: 'STOPPED', billing: false, spot: true })
    ];
    const doing = show({ list: list({ nodes }) });
    fireEvent.click(screen.getByRole('button', { name: 'Recreate b…' }));
    expect(doing.onRecreate).toHaveBeenCalledWith(expect.objectContaining({ node_id: 'b' }));
    const cards = screen.getAllByRole('listitem').map(card => card.lastChild?.textContent);
    expect(cards).toEqual([
      'Only the disk is billedStart · $9.60/h',
      'Counts against your quotaRecreate…',
      'Only the disk is billedDelete…'
    ]);
  });

  it('says what a stopped node costs when it is started, if that is known', () => {
    const stopped = { state: 'STOPPED', billing: false };
    show({ list: list({ nodes: [node('a', stopped), node('b', { ...stopped, price: null })] }) });
    screen.getByRole('button', { name: 'Start a: $9.60 per hour at list price' });
    screen.getByRole('button', { name: 'Start b: its price is unknown' });
  });

  it('shows no price that a grant covers', () => {
    show({ list: list({ nodes: [node('a', { covered: true })] }) });
    expect(document.body.textContent).not.toContain('$');
    expect(screen.getByText('1 running · covered by a grant')).toBeTruthy();
    const heading = screen.getByRole('button', { name: /grant/ });
    expect(heading.title).toContain('covered by a grant (list price: $9.60 per hour)');
  });

  it('says of an open spot node that it cannot be started again', () => {
    const stopped = node('a', { state: 'STOPPED', spot: true, billing: false });
    show({ list: list({ nodes: [stopped] }), openCards: new Set(['us-central1-a/a']) });
    expect(screen.queryByRole('button', { name: /^Start a/ })).toBeNull();
    screen.getByText(
      "A spot node can't be started again. Its disk is kept and billed until you delete the node."
    );
  });

  it('opens no notebook on what is being deleted', () => {
    const intents = [intent('a', { verb: 'delete', phase: 'deleting' })];
    show({ list: list({ nodes: [node('a')], intents }) });
    screen.getByText('Deleting');
    expect(screen.queryByRole('button', { name: 'Open new notebook on a' })).toBeNull();
  });

  it('shows the progress of a creation, which can be cancelled', () => {
    const nodes = [node('a', { state: 'CREATING', billing: false, kernelspec: null })];
    const doing = show({ list: list({ nodes, intents: [intent('a')] }) });
    screen.getByRole('progressbar');
    fireEvent.click(screen.getByRole('button', { name: 'Cancel creating a' }));
    expect(doing.onCancelCreation).toHaveBeenCalledWith(expect.objectContaining({ node_id: 'a' }));
  });

  it('shows a failed creation with what to do and the original words, to be dismissed', () => {
    const failed = intent('a', { settled: true, error: STOCKOUT });
    const doing = show({ list: list({ intents: [failed] }) });
    const card = within(screen.getByRole('alert'));
    [STOCKOUT.message, STOCKOUT.exists, STOCKOUT.hint, STOCKOUT.raw].forEach(text =>
      card.getByText(text)
    );
    fireEvent.click(card.getByRole('button', { name: 'Dismiss' }));
    expect(doing.onDismissFailure).toHaveBeenCalledWith(failed);
  });

  it('shows failed creations above all nodes, the newest first', () => {
    const failed = (node_id: string, verb: Verb, updated_at: number): IIntent => {
      const error = { ...STOCKOUT, message: `No ${verb} of ${node_id}.` };
      return intent(node_id, { settled: true, error, verb, updated_at });
    };
    const intents = [failed('x', 'create', 1), failed('z', 'create', 2), failed('b', 'stop', 3)];
    show({ list: list({ nodes: [node('a'), node('b')], intents }) });
    const rows = screen.getAllByRole('listitem').map(row => row.textContent);
    expect(rows).toEqual([
      expect.stringContaining('No create of z.'),
      expect.stringContaining('No create of x.'),
      expect.stringMatching(/^Readya/),
      expect.stringContaining('No stop of b.')
    ]);
  });

  it('brings a creation that has just failed into sight', () => {
    const { rerender } = render(<Panel {...panelOf({ list: list({ intents: [intent('a')] }) })} />);
    const seen: (string | null)[] = [];
    Element.prototype.scrollIntoView = function (this: Element) {
      seen.push(this.textContent);
    };
    const intents = [intent('a', { settled: true, error: STOCKOUT })];

    rerender(<Panel {...panelOf({ list: list({ intents }) })} />);

    expect(seen).toEqual([expect.stringContaining(STOCKOUT.message)]);
  });

  it('shows the age of a list that is not fresh', () => {
    show({ list: list({ age_s: 100 }), problem: STOCKOUT });
    screen.getByText('Last updated 2 min ago');
    screen.getByText(STOCKOUT.message);
  });

  it('shows no age while the list is fresh', () => {
    show({ list: list({ age_s: 3 }) });
    expect(screen.queryByText(/Last updated/)).toBeNull();
  });

  it('names zones that did not answer', () => {
    const notices = [{ message: 'The journal was damaged.', templates: {}, arguments: {} }];
    show({ list: list({ unreachable: ['us-east1-d'], notices }) });
    screen.getByText('The journal was damaged.');
    screen.getByText(/No response from us-east1-d/);
  });

  it('renders hostile names as text', () => {
    const nodes = [node(HOSTILE, { description: HOSTILE, health: HOSTILE, state: HOSTILE })];
    const intents = [intent(HOSTILE, { message: HOSTILE, error: { ...STOCKOUT, raw: HOSTILE } })];
    const openCards = new Set([`us-central1-a/${HOSTILE}`]);
    show({ list: list({ nodes, intents, unreachable: [HOSTILE] }), openCards });
    expect(screen.getAllByText(HOSTILE).length).toBeGreaterThan(2);
    expect(document.querySelector('img')).toBeNull();
  });
});

describe('the form', () => {
  it('says what is missing before anything is pressed', () => {
    const hint = 'Run `gcloud auth application-default login`.';
    const error = {
      ...{ ...STOCKOUT, code: 'credentials_missing', message: 'No Google credentials.', hint },
      status: 401
    };
    const doing = show({
      ...{ status: { ...STATUS, error }, list: null, offers: OFFERS, isFormOpen: true }
    });
    const form = within(screen.getByRole('form'));
    expect(form.getByRole('alert').textContent).toBe('No Google credentials.');
    expect(screen.getAllByText(hint)).toHaveLength(1);
    const create = form.getByRole<HTMLButtonElement>('button', { name: 'Create' });
    expect(create.disabled).toBe(true);
    fireEvent.submit(screen.getByRole('form'));
    expect(doing.onCreate).not.toHaveBeenCalled();
  });

  function open(onCreate: (spec: INodeSpec) => Promise<void>): void {
    render(
      <CreateForm
        offers={OFFERS}
        list={list({ nodes: [node('taken')] })}
        trans={trans}
        onCreate={onCreate}
        onCancel={() => undefined}
      />
    );
  }

  function fill(label: string, value: string): void {
    fireEvent.change(screen.getByLabelText(label), { target: { value } });
  }

  function submit(): void {
    fireEvent.click(screen.getByRole('button', { name: 'Create' }));
  }

  /** Does something and waits for all that follows at once. */
  function settled(what: () => void): Promise<void> {
    return act(() => Promise.resolve(what()));
  }

  it('shows the price per hour before anything is created', () => {
    const create = jest.fn();
    open(create);
    screen.getByText('$9.60 per hour');
    screen.getByText(/List price as of 2025-06-01/);
    expect(create).not.toHaveBeenCalled();
  });

  it('starts with the choice that an error suggests', () => {
    const spec = { zone: 'us-east1-d', node_id: 'again', accelerator_type: 'v6e-8' };
    render(
      <CreateForm
        offers={OFFERS}
        list={list()}
        request={{ turn: 1, way: 'now', spec }}
        trans={trans}
        onCreate={jest.fn()}
        onCancel={() => undefined}
      />
    );
    expect(screen.getByLabelText<HTMLInputElement>('Name').value).toBe('again');
    expect(screen.getByLabelText<HTMLSelectElement>('Location').value).toBe('us-east1-d');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: /v6e-8/ }).checked).toBe(true);
    expect(document.activeElement).toBe(screen.getByRole('searchbox', { name: 'Chips' }));
  });

  it('starts with the defaults of the settings, else with the last choice', () => {
    const lastChoice = {
      ...{ zone: 'us-central1-a', accelerator_type: 'v5litepod-1', runtime_version: '' },
      ...{ provisioning: 'spot' as const, spot: true, way: 'queue' as const }
    };
    const memory = {
      ...{ lastChoice, lastOpen: null, profiles: [], notebook: null, example: null }
    };
    const extras = { memory } as unknown as ICreateExtras;
    const start = (defaults: Partial<INodeSpec>, request?: IFormRequest): string[] => {
      cleanup();
      render(
        <CreateForm
          {...{ offers: OFFERS, list: list(), defaults, request, extras, trans }}
          onCreate={jest.fn()}
          onCancel={jest.fn()}
        />
      );
      const type = screen
        .getByRole('radiogroup', { name: 'Accelerator types' })
        .querySelector('input:checked')?.nextElementSibling?.textContent;
      return [
        screen.getByLabelText<HTMLSelectElement>('Location').value,
        type ?? '',
        screen.getByLabelText<HTMLSelectElement>('Provisioning model').value
      ];
    };
    expect(start({})).toEqual(['us-central1-a', 'v5litepod-1', 'spot']);
    expect(start({ provisioning: 'on-demand', spot: false })).toEqual([
      ...['us-central1-a', 'v5litepod-1', 'on-demand']
    ]);
    // a type alone goes where it is offered
    expect(start({ accelerator_type: 'v6e-8' })).toEqual(['us-east1-d', 'v6e-8', 'spot']);
    const asked = { zone: 'us-central1-a', accelerator_type: 'v5litepod-8' };
    const request = { turn: 1, way: 'now' as const, spec: asked };
    expect(start({ accelerator_type: 'v6e-8' }, request)).toEqual([
      ...['us-central1-a', 'v5litepod-8', 'on-demand']
    ]);
    // what to open is no choice of a node
    expect(start({}, { ...request, spec: {} })[1]).toBe('v5litepod-1');
  });

  it('remembers what to open unless it came with the request, as the notebook of a lost node does', async () => {
    const memory = {
      ...{ lastChoice: null, lastOpen: null, profiles: [], notebook: 'a.ipynb', example: null }
    };
    const remembered: (string | null)[] = [];
    const extras = {
      memory,
      onOpenWhenReady: jest.fn(),
      onRemember: (_: string, __: object, open: { kind: string } | null) =>
        remembered.push(open && open.kind)
    } as unknown as ICreateExtras;
    const carried = { kind: 'notebook' as const, path: 'lost.ipynb', runsAll: false };
    const request = { turn: 1, way: 'now' as const, spec: {}, open: carried };
    for (const asked of [undefined, request]) {
      cleanup();
      render(
        <CreateForm
          {...{ offers: OFFERS, list: list(), request: asked, extras, trans }}
          onCreate={jest.fn().mockResolvedValue(undefined)}
          onCancel={jest.fn()}
        />
      );
      await settled(submit);
    }
    expect(remembered).toEqual(['notebook', null]);
  });

  it('opens nothing later on a node that was refused', async () => {
    const memory = {
      ...{ lastChoice: null, lastOpen: null, profiles: [], notebook: 'a.ipynb', example: null }
    };
    const opened: string[] = [];
    const extras = {
      memory,
      onOpenWhenReady: (_: string, __: string, { kind }: { kind: string }) => opened.push(kind)
    } as unknown as ICreateExtras;
    render(
      <CreateForm
        {...{ offers: OFFERS, list: list(), extras, trans }}
        onCreate={jest.fn().mockRejectedValue(new TpuRequestError(STOCKOUT))}
        onCancel={jest.fn()}
      />
    );
    await settled(submit);
    expect(opened).toEqual(['notebook', 'none']);
  });

  it('shows the price of what is chosen, and that it is unknown where it is', () => {
    open(jest.fn());
    screen.getByRole('radio', { name: /v5litepod-8 8 × 16 GiB \$9.60/ });
    fireEvent.click(screen.getByRole('radio', { name: /v5litepod-1 / }));
    screen.getByText('$1.20 per hour');
    fireEvent.click(screen.getByRole('radio', { name: /v6e-8/ }));
    screen.getByText('Price per hour unknown');
  });

  it('sends what was chosen', async () => {
    const create = jest.fn().mockResolvedValue(undefined);
    open(create);
    fill('Name', 'my-node');
    fill('Provisioning model', 'spot');
    await settled(submit);
    expect(create).toHaveBeenCalledWith({ ...OFFERS.default, node_id: 'my-node', spot: true });
  });

  it.each(['Bad Name', 'taken'])('does not send the name %s, and says why', name => {
    const create = jest.fn();
    open(create);
    fill('Name', name);
    submit();
    expect(create).not.toHaveBeenCalled();
    expect(screen.getByLabelText('Name').getAttribute('aria-invalid')).toBe('true');
  });

  it('goes to the first field that is wrong', async () => {
    open(jest.fn());
    const seen: (string | null | undefined)[] = [];
    Element.prototype.scrollIntoView = function (this: Element) {
      seen.push(this.querySelector('label')?.textContent);
    };
    fill('Name', 'Bad Name');
    screen.getByLabelText('Location').focus();
    submit();
    await act(() => new Promise<void>(done => window.requestAnimationFrame(() => done())));
    expect(document.activeElement).toBe(screen.getByLabelText('Name'));
    expect(seen).toEqual(['Name']);
  });

  it('sends once for two clicks', async () => {
    const create = jest.fn().mockReturnValue(new Promise(() => undefined));
    open(create);
    const form = screen.getByRole('form', { name: 'Create a node' });
    await settled(() => {
      fireEvent.submit(form);
      fireEvent.submit(form);
    });
    expect(create).toHaveBeenCalledTimes(1);
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Creating…' }).disabled).toBe(
      true
    );
  });

  it('does not create a node when Enter ends a search for chips, but chooses the first', () => {
    const create = jest.fn();
    open(create);
    const search = screen.getByRole('searchbox', { name: 'Chips' });
    fireEvent.change(search, { target: { value: 'v6e' } });
    fireEvent.keyDown(search, { key: 'Enter' });
    expect(screen.getByLabelText<HTMLSelectElement>('Location').value).toBe('us-east1-d');
    fireEvent.change(search, { target: { value: 'v77' } });
    screen.getByText('No accelerator type matches.');
    expect(create).not.toHaveBeenCalled();
  });

  it('has a way back where nothing is offered', () => {
    const cancel = jest.fn();
    render(
      <CreateForm
        offers={{ ...OFFERS, zones: {} }}
        list={list()}
        trans={trans}
        onCreate={jest.fn()}
        onCancel={cancel}
      />
    );
    screen.getByText(/No zone offers TPUs/);
    fireEvent.click(screen.getByRole('button', { name: 'Cancel' }));
    expect(cancel).toHaveBeenCalled();
  });

  it('can send again what a vanished server did not answer', async () => {
    const create = jest
      .fn()
      .mockRejectedValueOnce(new TpuRequestError({ ...STOCKOUT, code: 'server_unreachable' }))
      .mockResolvedValue(undefined);
    open(create);
    await settled(submit);
    await settled(submit);
    expect(create.mock.calls[1]).toEqual(create.mock.calls[0]);
  });

  it('keeps what was chosen when it is refused, and says why', async () => {
    open(jest.fn().mockRejectedValue(new TpuRequestError(STOCKOUT)));
    fill('Name', 'my-node');
    await settled(submit);
    screen.getByText(STOCKOUT.hint);
    expect(screen.getByLabelText<HTMLInputElement>('Name').value).toBe('my-node');
  });
});

describe('the question before deleting', () => {
  it('names the cost that ends and what is lost', () => {
    render(<DeleteQuestion node={node('a')} emulated={false} trans={trans} />);
    screen.getByText('It costs $9.60 per hour now, $0.50 so far. Hourly billing stops.');
    screen.getByText(/all files on it are deleted/);
  });

  it('shows the same cost on the emulated cloud, as simulated', () => {
    render(<DeleteQuestion node={node('a')} emulated={true} trans={trans} />);
    screen.getByText('It costs $9.60 per hour now, $0.50 so far. Hourly billing stops.');
    screen.getByText(/costs are simulated/);
    expect(screen.queryByText(/nothing is billed/i)).toBeNull();
  });

  it('names the disk of a stopped node as what is billed', () => {
    const stopped = node('a', { state: 'STOPPED', billing: false });
    render(<DeleteQuestion node={stopped} emulated={false} trans={trans} />);
    screen.getByText('Only its disk is billed now.');
    screen.getByText(/all files on it are deleted/);
  });

  it('warns that somebody else may use what was created elsewhere', () => {
    render(<DeleteQuestion node={node('a', { managed: false })} emulated={false} trans={trans} />);
    screen.getByText(/someone else/);
  });
});

describe('the question before stopping', () => {
  it('says that the node can be started again', () => {
    render(<StopQuestion node={node('a')} emulated={false} trans={trans} />);
    screen.getByText('Its kernels stop. Its disk is kept and billed, and you can start it again.');
  });

  it.each(['spot', 'preemptible'] as const)('says that a %s node cannot be', provisioning => {
    render(
      <StopQuestion node={node('a', { spot: true, provisioning })} emulated={false} trans={trans} />
    );
    screen.getByText('Its kernels stop.');
    screen.getByText(
      `A ${provisioning} node can't be started again. Its disk is kept and billed until you delete the node.`
    );
    expect(screen.queryByText(/it can be started again/)).toBeNull();
  });
});
