import { Notification } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { FailureNotices } from '../failures';
import { KERNEL_SCHEMA } from '../tokens';

function event(kernel_id: string, message: string, error_code = 'wrong_state'): Event.Emission {
  return { schema_id: KERNEL_SCHEMA, kernel_id, message, error_code };
}

function shown(): string[] {
  return Notification.manager.notifications.map(({ message }) => message);
}

describe('FailureNotices', () => {
  beforeEach(() => Notification.dismiss());

  it('shows one notice for each kernel, which says the newest', () => {
    const { hear } = new FailureNotices();

    hear(null, event('a', 'The node is STOPPING.'));
    hear(null, event('b', 'The node is STOPPING.'));
    hear(null, event('a', 'The node is STOPPED.'));

    expect(shown().sort()).toEqual(['The node is STOPPED.', 'The node is STOPPING.']);
  });

  it('shows a new notice after one was dismissed', () => {
    const { hear } = new FailureNotices();
    hear(null, event('a', 'first'));
    Notification.dismiss();

    hear(null, event('a', 'second'));

    expect(shown()).toEqual(['second']);
  });

  it('says nothing of kernels that start', () => {
    new FailureNotices().hear(null, event('a', 'It runs.', ''));

    expect(shown()).toEqual([]);
  });
});
