import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { Reconnector } from '../reconnect';

/** A kernel's connection that comes back when it is asked to. */
class Connection {
  connectionStatus: Kernel.ConnectionStatus = 'connecting';
  readonly isDisposed = false;
  readonly reconnect = jest.fn(() => Promise.resolve());
}

class Session {
  readonly kernel = new Connection();
  readonly session = { kernel: this.kernel };
  readonly connectionStatusChanged = new Signal<this, Kernel.ConnectionStatus>(this);

  become(status: Kernel.ConnectionStatus): void {
    this.kernel.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }
}

describe('the reconnector', () => {
  const probe = jest.fn<Promise<unknown>, []>();
  let session: Session;
  let isOurs: boolean;
  let reconnector: Reconnector;

  beforeEach(() => {
    jest.useFakeTimers();
    probe.mockReset().mockRejectedValue(new Error('refused'));
    session = new Session();
    isOurs = true;
    reconnector = new Reconnector(probe, () => isOurs);
    reconnector.watch(session as unknown as ISessionContext);
  });

  afterEach(() => {
    reconnector.dispose();
    jest.useRealTimers();
  });

  it('connects a kernel as soon as the server answers, though JupyterLab has given up', async () => {
    session.become('connected');
    session.become('disconnected');
    await jest.advanceTimersByTimeAsync(120_000);
    expect(session.kernel.reconnect).not.toHaveBeenCalled();
    probe.mockResolvedValue({});
    await jest.advanceTimersByTimeAsync(1_000);
    expect(session.kernel.reconnect).toHaveBeenCalledTimes(1);
  });

  it('lets a connection come about before it tries again', async () => {
    probe.mockResolvedValue({});
    session.become('connected');
    session.become('connecting');
    await jest.advanceTimersByTimeAsync(5_000);
    expect(session.kernel.reconnect).toHaveBeenCalledTimes(1);
    await jest.advanceTimersByTimeAsync(6_000);
    expect(session.kernel.reconnect).toHaveBeenCalledTimes(2);
  });

  it('gives a first connection its time, and asks nobody while all is well', async () => {
    probe.mockResolvedValue({});
    session.become('connecting');
    await jest.advanceTimersByTimeAsync(5_000);
    expect(session.kernel.reconnect).not.toHaveBeenCalled();
    session.become('connected');
    probe.mockClear();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(probe).not.toHaveBeenCalled();
  });

  it('stops when the kernel is connected', async () => {
    session.become('connected');
    session.become('connecting');
    await jest.advanceTimersByTimeAsync(2_000);
    session.become('connected');
    probe.mockClear();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(probe).not.toHaveBeenCalled();
  });

  it('leaves the kernels of others alone', async () => {
    isOurs = false;
    session.become('connected');
    session.become('disconnected');
    await jest.advanceTimersByTimeAsync(10_000);
    expect(probe).not.toHaveBeenCalled();
  });
});
