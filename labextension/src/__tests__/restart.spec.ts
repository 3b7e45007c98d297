import { ISessionContext } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { RefusedRestarts } from '../restart';

const REASON = 'The kernel was not restarted. The disk of the worker takes no files.';
const headers = { 'Jupyter-TPU-Error': 'environment_failed' };
const refusal = new ServerConnection.ResponseError(
  new Response(null, { status: 502, headers }),
  REASON
);

/** A kernel's connection whose server answers as a test wants. */
class Connection {
  answer: Error | null = null;
  readonly isDisposed = false;
  readonly reconnect = jest.fn(() => Promise.resolve());

  restart(): Promise<void> {
    return this.answer ? Promise.reject(this.answer) : Promise.resolve();
  }
}

/** A notebook's session, which keeps errors to itself as JupyterLab's does. */
class Session {
  session = { kernel: new Connection() };
  readonly kernelChanged = new Signal<this, void>(this);

  async restartKernel(): Promise<void> {
    await this.session.kernel.restart().catch(() => undefined);
  }
}

// showErrorMessage also writes what it shows into the console
beforeAll(() => jest.spyOn(console, 'warn').mockImplementation());

describe('a restart', () => {
  let session: Session;
  let isOurs: boolean;
  let refused: unknown[];

  beforeEach(() => {
    session = new Session();
    isOurs = true;
    refused = [];
    const restarts = new RefusedRestarts(() => isOurs, nullTranslator.load('jupyter_tpu'));
    restarts.refused.connect((_, kernel) => refused.push(kernel));
    restarts.watch(session as unknown as ISessionContext);
  });

  const dialogs = (): (string | null)[] =>
    [...document.querySelectorAll('.jp-Dialog')].map(({ textContent }) => textContent);

  async function shown(): Promise<void> {
    await new Promise(resolve => setTimeout(resolve));
  }

  afterEach(async () => {
    await shown();
    document.querySelectorAll<HTMLElement>('.jp-Dialog button').forEach(button => button.click());
    await shown();
  });

  it('that the server refuses connects the notebook again and says why, once', async () => {
    const { kernel } = session.session;
    kernel.answer = refusal;
    await expect(session.restartKernel()).rejects.toBe(refusal);
    await shown();
    expect(kernel.reconnect).toHaveBeenCalledTimes(1);
    expect(refused).toEqual([kernel]);
    expect(dialogs()).toEqual([expect.stringContaining(REASON)]);
    expect(dialogs()[0]).toContain('Kernel not restarted');
  });

  it('that succeeds after a refused one is like any other', async () => {
    const { kernel } = session.session;
    kernel.answer = refusal;
    await session.restartKernel().catch(() => undefined);
    kernel.answer = null;
    await session.restartKernel();
    expect(refused).toHaveLength(1);
  });

  it('is looked after for the next kernel of a notebook as well, in one layer', async () => {
    session.session = { kernel: new Connection() };
    session.kernelChanged.emit();
    session.kernelChanged.emit();
    session.session.kernel.answer = refusal;
    await expect(session.restartKernel()).rejects.toBe(refusal);
    expect(session.session.kernel.reconnect).toHaveBeenCalledTimes(1);
  });

  it('of a kernel that runs elsewhere is left to JupyterLab', async () => {
    isOurs = false;
    session.session.kernel.answer = refusal;
    await session.restartKernel();
    await shown();
    expect(refused).toEqual([]);
    expect(dialogs()).toEqual([]);
  });

  it.each([
    ['nothing', new TypeError('Failed to fetch')],
    [
      'an error of a proxy',
      new ServerConnection.ResponseError(new Response('timed out', { status: 504 }))
    ]
  ])(
    'that gets %s for an answer is no refusal, but connects the notebook again',
    async (_, answer) => {
      const { kernel } = session.session;
      kernel.answer = answer;
      await session.restartKernel();
      await shown();
      expect(kernel.reconnect).toHaveBeenCalledTimes(1);
      expect(refused).toEqual([]);
      expect(dialogs()).toEqual([]);
    }
  );
});
