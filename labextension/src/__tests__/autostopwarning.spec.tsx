import { act, cleanup, fireEvent, screen } from '@testing-library/react';
import { ISessionContext } from '@jupyterlab/apputils';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { IKeepRunning, INodeAutostop } from '../api.generated';
import { AutostopWarning } from '../autostop/warning';
import { IMoneyModel } from '../money/tokens';
import { nodeNameOf } from '../nodekernel';
import { TpuRequestError } from '../request';
import { INodeKey } from '../tokens';
import { STOCKOUT, trans } from './fixtures';
import { answered, autostop, NODE } from './moneyfixtures';

const SPECS = specsOf({ provisioner_name: 'tpu', config: { node: NODE } });

function specsOf(kernel_provisioner: object): ISessionContext['specsManager']['specs'] {
  const spec = { name: 'tpu-spec', metadata: { kernel_provisioner } };
  return { default: '', kernelspecs: { 'tpu-spec': spec } } as never;
}

/** A notebook whose kernel runs on the node. */
class Session {
  session: { kernel: { name: string } } | null = { kernel: { name: 'tpu-spec' } };
  readonly specsManager = { specs: SPECS };
  readonly kernelChanged = new Signal<this, void>(this);
}

const SOURCES = [{ source: 'execution', state: 'active', age_s: 3300, detail: '' }] as const;

const SERVER_S = 1000;

function ending(rest: Partial<INodeAutostop> = {}): INodeAutostop {
  const ends_at = SERVER_S + 251.5;
  const warned = {
    action: 'stop',
    ends_at,
    is_warning: true,
    idle_s: 3300,
    sources: SOURCES
  } as const;
  return autostop({ ...warned, ...rest });
}

describe('the warning in a notebook', () => {
  const stateChanged = new Signal<object, void>({});
  const onKeepRunning = jest.fn<Promise<void>, [INodeKey, IKeepRunning]>();
  const onEnd = jest.fn<Promise<void>, [INodeKey, string]>();
  const onKeptRunning = jest.fn();
  let parts: { autostops: unknown };
  let session: Session;
  let widget: AutostopWarning;

  beforeEach(() => {
    onKeepRunning.mockReset().mockResolvedValue(undefined);
    onEnd.mockReset().mockResolvedValue(undefined);
    onKeptRunning.mockReset();
    parts = { autostops: { dated: null, problem: null } };
    session = new Session();
    const model = {
      stateChanged,
      get parts() {
        return parts;
      }
    } as unknown as IMoneyModel;
    const context = session as unknown as ISessionContext;
    widget = new AutostopWarning(context, model, { onKeepRunning, onEnd }, onKeptRunning, trans);
  });

  afterEach(() => {
    widget.dispose();
    cleanup();
  });

  async function after(what: () => void): Promise<void> {
    await act(async () => {
      what();
      MessageLoop.flush();
      await widget.renderPromise;
    });
  }

  async function hear(...nodes: INodeAutostop[]): Promise<void> {
    parts = { autostops: answered({ as_of: null, nodes }) };
    await after(() => stateChanged.emit());
  }

  async function open(...nodes: INodeAutostop[]): Promise<void> {
    await after(() => Widget.attach(widget, document.body));
    await hear(...nodes);
  }

  function click(name: string): Promise<void> {
    return after(() => fireEvent.click(screen.getByRole('button', { name })));
  }

  it('is empty until the node ends soon', async () => {
    await open(ending({ is_warning: false }));
    expect(widget.node.textContent).toBe('');
  });

  it('counts down and says why', async () => {
    await open(ending());
    const timer = screen.getByRole('timer');
    expect(timer.textContent).toMatch(/^Auto-stop in 4:1\d · idle for 55 min$/);
    expect(timer.getAttribute('aria-live')).toBe('off');
  });

  it('reminds of a node that is billed though nobody acts, and keeps or stops it', async () => {
    const text = 'my-node has been billed for 26 h without any known activity from you.';
    const reminder = { since: 0, days: 1, usd: null, text };
    await open(ending({ is_warning: false, reminder }));
    screen.getByText(text);
    await click('Keep my-node running');
    expect(onKeepRunning.mock.calls[0][1]).toEqual({ for_s: 3600 });
    await click('Stop my-node');
    expect(onEnd.mock.calls[0][1]).toBe('stop');
    await hear(ending({ is_warning: false, reminder: null }));
    expect(widget.node.textContent).toBe('');
  });

  it('announces it once, without a time that goes on', async () => {
    await open(ending());
    const said = 'Auto-stop for my-node, where this notebook runs, is due soon: idle';
    expect(screen.getByRole('status').textContent).toBe(said);
  });

  it('is not that of other nodes, nor of kernels elsewhere', async () => {
    await open(ending({ name: `${NODE}-2` }));
    expect(widget.node.textContent).toBe('');
    session.session = { kernel: { name: 'python3' } };
    await after(() => session.kernelChanged.emit());
    await hear(ending());
    expect(widget.node.textContent).toBe('');
  });

  it('follows the notebook to another kernel', async () => {
    session.session = null;
    await open(ending());
    expect(widget.node.textContent).toBe('');
    session.session = { kernel: { name: 'tpu-spec' } };
    await after(() => session.kernelChanged.emit());
    screen.getByRole('timer');
  });

  it('keeps the node, and vanishes when it is kept', async () => {
    await open(ending());
    await click('Keep my-node running 1 h');
    expect(onKeepRunning.mock.calls[0][1]).toEqual({ for_s: 3600 });
    await hear(ending({ is_warning: false }));
    expect(widget.node.textContent).toBe('');
    expect(onKeptRunning).toHaveBeenCalled();
  });

  it('keeps it until the cell ends only while one runs', async () => {
    await open(ending());
    await click('Keep my-node running until this cell ends');
    expect(onKeepRunning.mock.calls[0][1]).toEqual({ while_busy: true });
    await hear(ending({ sources: [{ ...SOURCES[0], state: 'quiet' }] }));
    expect(screen.queryByRole('button', { name: /until this cell ends/ })).toBeNull();
  });

  it('keeps it until a time', async () => {
    await open(ending());
    await click('Keep my-node running until a set time');
    await click('Keep running');
    const { until = 0 } = onKeepRunning.mock.calls[0][1];
    expect(until).toBeGreaterThan(SERVER_S);
    expect(until).toBeLessThan(SERVER_S + 86_460);
  });

  it('says why it could not be kept', async () => {
    onKeepRunning.mockRejectedValue(new TpuRequestError(STOCKOUT));
    await open(ending());
    await click('Keep my-node running 1 h');
    expect(screen.getByRole('alert').textContent).toContain(STOCKOUT.message);
    expect(onKeptRunning).not.toHaveBeenCalled();
  });

  it('offers nothing that would not help', async () => {
    await open(ending({ ends_why: 'deadline' }));
    expect(screen.queryByRole('button')).toBeNull();
  });
});

describe('the node of a kernelspec', () => {
  it.each([
    [{ provisioner_name: 'tpu', config: { node: NODE } }, NODE],
    [{ provisioner_name: 'tpu', config: { node: 5 } }, null],
    [{ provisioner_name: 'other', config: { node: NODE } }, null]
  ])('%j is %s', (provisioner, name) => {
    expect(nodeNameOf('tpu-spec', specsOf(provisioner))).toBe(name);
  });

  it('is unknown where the kernelspec is', () => {
    expect(nodeNameOf('tpu-spec', null)).toBeNull();
    expect(nodeNameOf('gone', SPECS)).toBeNull();
  });
});
