import { act } from '@testing-library/react';
import { ISessionContext } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { ILink } from '../api.generated';
import { KernelStatus } from '../notebooktoolbar';
import { ILinkEvent, KERNEL_SCHEMA, LINK_SCHEMA } from '../tokens';
import { trans } from './fixtures';

/** The time in all tests, so that what they show does not depend on how long they take. */
const NOW_MS = 1_700_000_000_000;

/** A session whose kernel is `k1`. */
class Session {
  session: { kernel: { id: string; name: string; status?: string } } | null = {
    kernel: { id: 'k1', name: 'spec' }
  };
  readonly specsManager = { specs: null };
  readonly kernelDisplayName = 'Spec';
  readonly statusChanged = new Signal<this, string>(this);
  readonly connectionStatusChanged = new Signal<this, string>(this);
  readonly kernelChanged = new Signal<this, void>(this);
}

describe('the status in a notebook', () => {
  const events = new Signal<Event.IManager, Event.Emission>({} as Event.IManager);
  let fetchLink: (kernelId: string) => Promise<ILink>;
  let session: Session;
  let widget: KernelStatus;
  let clock: jest.SpyInstance<number>;

  beforeEach(async () => {
    clock = jest.spyOn(Date, 'now').mockReturnValue(NOW_MS);
    fetchLink = () => Promise.reject(new Error('There is no such kernel.'));
    session = new Session();
    widget = new KernelStatus(
      session as unknown as ISessionContext,
      events as unknown as Event.Stream,
      kernelId => fetchLink(kernelId),
      trans
    );
    await after(() => Widget.attach(widget, document.body));
  });

  afterEach(() => {
    widget.dispose();
    clock.mockRestore();
  });

  async function after(what: () => void): Promise<string | null> {
    await act(async () => {
      what();
      MessageLoop.flush();
      await widget.renderPromise;
    });
    return widget.node.textContent;
  }

  function tell(rest: object): void {
    const event = { kernel_id: 'k1', kernel_name: 'spec', message: 'Installing', fraction: null };
    events.emit({ schema_id: KERNEL_SCHEMA, phase: 'kernel', error_code: '', ...event, ...rest });
  }

  it('shows the steps of its own kernel, with how much is done', async () => {
    expect(await after(() => tell({}))).toBe('Installing');
    expect(await after(() => tell({ fraction: 0.5 }))).toBe('Installing (50 %)');
    expect(await after(() => tell({ kernel_id: 'k2', message: 'Other' }))).toBe(
      'Installing (50 %)'
    );
  });

  it('is no failure, but a warning, when somebody has ended the kernel', async () => {
    const message = 'The TPU was released by ada, which ended this kernel.';
    expect(await after(() => tell({ phase: 'ended', message }))).toBe(message);
    expect(widget.node.querySelector('.jp-mod-failed')).toBeNull();
    expect(widget.node.querySelector('.jp-mod-cut')).toBeTruthy();
    await after(() => session.statusChanged.emit('idle'));
    expect(widget.node.textContent).toBe('');
  });

  it('is empty when the kernel is ready', async () => {
    await after(() => tell({}));
    expect(await after(() => tell({ phase: 'ready' }))).toBe('');
  });

  it('is empty when the kernel answers, even if nobody said that it is ready', async () => {
    await after(() => tell({}));
    expect(await after(() => session.statusChanged.emit('idle'))).toBe('');
  });

  it('keeps a failure in sight', async () => {
    await after(() => tell({ error_code: 'kernel_failed', message: 'It ended.' }));
    expect(widget.node.querySelector('.jp-mod-failed')?.textContent).toBe('It ended.');
  });

  it('hears of the failure of a start that left the notebook without a kernel', async () => {
    await after(() => tell({}));
    session.session = null;
    await after(() => tell({ phase: 'failed', error_code: 'host_key_changed', message: 'No.' }));
    const said = widget.node.querySelector<HTMLElement>('.jp-mod-failed');
    expect(said?.textContent).toBe('Kernel not started');
    expect(said?.title).toBe('No.');
  });

  it('shows hostile messages as text', async () => {
    await after(() => tell({ message: '<img src=x>' }));
    expect(widget.node.querySelector('img')).toBeNull();
    expect(widget.node.textContent).toBe('<img src=x>');
  });

  function link(state: ILinkEvent['state'], rest: Partial<ILinkEvent> = {}): void {
    const event = { kernel_id: 'k1', kernel_name: 'spec', node_name: 'n', message: 'Key refused.' };
    const since = NOW_MS / 1000 - 30;
    events.emit({ schema_id: LINK_SCHEMA, ...event, since, error_code: '', state, ...rest });
  }

  it('says for how long the link is down, and that the kernel runs on', async () => {
    expect(await after(() => link('down'))).toBe('Disconnected · 30 s');
    expect(widget.node.querySelector('span')?.title).toBe(
      'No connection to the node for 30 s. The kernel keeps running.'
    );
    expect(await after(() => link('resuming'))).toBe('Catching up');
    expect(await after(() => link('live'))).toBe('');
  });

  it('says why a link is lost', async () => {
    expect(await after(() => link('lost'))).toBe('Connection lost');
    const said = widget.node.querySelector<HTMLElement>('.jp-mod-failed');
    expect(said?.title).toBe('Connection lost 30 s ago: Key refused.');
  });

  it('leaves the end of the node to the line above the notebook', async () => {
    expect(await after(() => link('lost', { error_code: 'node_not_found' }))).toBe('');
    const end = { phase: 'node_ended', error_code: 'node_ended', message: 'It was stopped.' };
    expect(await after(() => tell(end))).toBe('');
  });

  it('keeps the link apart from what the kernel does', async () => {
    await after(() => link('down'));
    expect(await after(() => session.statusChanged.emit('busy'))).toContain('Disconnected');
  });

  it('hears nothing of the links of others, and forgets that of a kernel it had', async () => {
    expect(await after(() => link('down', { kernel_id: 'k2' }))).toBe('');
    await after(() => link('down'));
    expect(await after(() => session.kernelChanged.emit())).toBe('');
  });

  function down(): ILink {
    return { state: 'down', since: NOW_MS / 1000 - 60, message: '', error_code: 'link_down' };
  }

  it('asks how a kernel is reached that it meets, since events tell only of changes', async () => {
    fetchLink = kernelId =>
      kernelId === 'k1' ? Promise.resolve(down()) : Promise.reject(new Error());
    await after(() => session.kernelChanged.emit());
    expect(await after(() => widget.update())).toBe('Disconnected · 60 s');
  });

  it('asks again when it is connected again, and believes what it heard meanwhile', async () => {
    let answer: (link: ILink) => void = () => undefined;
    fetchLink = () => new Promise(resolve => (answer = resolve));
    await after(() => session.connectionStatusChanged.emit('connected'));
    await after(() => link('resuming'));
    await after(() => answer(down()));
    expect(await after(() => widget.update())).toBe('Catching up');
  });

  it('says nothing of a kernel that the server cannot tell of', async () => {
    await after(() => session.kernelChanged.emit());
    expect(await after(() => widget.update())).toBe('');
  });

  it('does not say of a kernel that is dead for good that the server is away', async () => {
    await after(() => session.connectionStatusChanged.emit('connected'));
    session.session!.kernel.status = 'dead';
    await after(() => session.connectionStatusChanged.emit('disconnected'));
    clock.mockReturnValue(NOW_MS + 12_000);
    expect(await after(() => widget.update())).toBe('');
  });

  it('says when the server itself does not answer, but not while a page is new', async () => {
    expect(await after(() => session.connectionStatusChanged.emit('connecting'))).toBe('');
    await after(() => session.connectionStatusChanged.emit('connected'));
    expect(await after(() => session.connectionStatusChanged.emit('connecting'))).toBe('');
    clock.mockReturnValue(NOW_MS + 12_000);
    expect(await after(() => widget.update())).toBe('Server unreachable · 12 s');
    expect(await after(() => session.connectionStatusChanged.emit('connected'))).toBe('');
  });
});
