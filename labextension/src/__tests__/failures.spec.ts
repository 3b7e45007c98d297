import { Notification } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { FailureNotices } from '../failures';
import { sshCommand } from '../fleet';
import { KERNEL_SCHEMA } from '../tokens';
import { list, node, STOCKOUT } from './fixtures';

const STOPPED = 'The node a was stopped.';

function event(
  node_id: string,
  message: string,
  { kernel_id = 'kernel', phase = 'died', error_code = 'wrong_state' } = {}
): Event.Emission {
  const node_name = node(node_id).name;
  return { schema_id: KERNEL_SCHEMA, node_name, kernel_id, message, phase, error_code };
}

function shown(): string[] {
  return Notification.manager.notifications.map(({ message }) => message);
}

describe('FailureNotices', () => {
  let notices: FailureNotices;
  let isInNotebook: boolean;

  beforeEach(() => {
    Notification.dismiss();
    isInNotebook = false;
    notices = new FailureNotices(
      key => ({ label: sshCommand(key), callback: () => undefined }),
      () => isInNotebook
    );
  });

  it('shows one notice for each node, which says the newest', () => {
    notices.onEvent(null, event('a', 'The node is STOPPING.'));
    notices.onEvent(null, event('b', 'The node is STOPPING.'));
    notices.onEvent(null, event('a', 'The node is STOPPED.'));

    expect(shown().sort()).toEqual(['The node is STOPPED.', 'The node is STOPPING.']);
  });

  it('shows one notice for all kernels that ended with their node', () => {
    ['first', 'second', 'third'].forEach(kernel_id =>
      notices.onEvent(null, event('a', STOPPED, { kernel_id }))
    );

    expect(shown()).toEqual([STOPPED]);
  });

  it('offers the command that a text names, with its node', () => {
    notices.onEvent(null, event('a', 'No progress. Log in with `jupyter tpu ssh` and check.'));
    notices.onEvent(null, event('b', 'There is no python3.'));
    const labels = Notification.manager.notifications.map(({ options }) =>
      options.actions?.map(({ label }) => label)
    );
    expect(labels).toContainEqual(['jupyter tpu ssh a --zone us-central1-a']);
    expect(labels).toContainEqual([]);
  });

  it('ends with a whole sentence, where JupyterLab would cut', () => {
    const [first, second] = ['a'.repeat(60), 'b'.repeat(60)];
    notices.onEvent(null, event('a', `${first}. ${second}. The node may be running and billed.`));
    expect(shown()).toEqual([`${first}. ${second}.`]);
    notices.onEvent(null, event('a', 'a'.repeat(150)));
    expect(shown()).toEqual(['a'.repeat(150)]);
  });

  it('withdraws that a node is not reached when any kernel starts there', () => {
    const error_code = 'worker_unreachable';
    notices.onEvent(null, event('a', 'a does not answer.', { phase: 'failed', error_code }));
    const other = { kernel_id: 'other', phase: 'ready', error_code: '' };
    notices.onEvent(null, event('b', 'It runs.', other));
    expect(shown()).toEqual(['a does not answer.']);
    notices.onEvent(null, event('a', 'It runs.', other));
    expect(shown()).toEqual([]);
  });

  it('shows a new notice after one was dismissed', () => {
    notices.onEvent(null, event('a', 'first'));
    Notification.dismiss();

    notices.onEvent(null, event('a', 'second'));

    expect(shown()).toEqual(['second']);
  });

  it('leaves the end of a node to its notebooks', () => {
    notices.onEvent(null, event('a', STOPPED, { phase: 'node_ended', error_code: 'node_ended' }));

    expect(shown()).toEqual([]);
  });

  it('leaves a start that a notebook of this page waits for to its dialog, and no other', () => {
    const failed = event('a', 'a does not answer.', { phase: 'failed' });
    isInNotebook = true;
    notices.onEvent(null, failed);
    expect(shown()).toEqual([]);
    isInNotebook = false;
    notices.onEvent(null, failed);
    expect(shown()).toEqual(['a does not answer.']);
  });

  it('says nothing of kernels that start', () => {
    notices.onEvent(null, event('a', 'It runs.', { phase: 'ready', error_code: '' }));

    expect(shown()).toEqual([]);
  });

  it('withdraws a notice when the node is READY again', () => {
    notices.onNodes(list({ nodes: [node('a')] }));
    notices.onEvent(null, event('a', STOPPED));
    for (const state of ['READY', 'STOPPING', 'STOPPED', 'STARTING']) {
      notices.onNodes(list({ nodes: [node('a', { state })] }));
      expect(shown()).toEqual([STOPPED]);
    }

    notices.onNodes(list({ nodes: [node('a')] }));

    expect(shown()).toEqual([]);
  });

  it('withdraws a notice when the node is gone, and not while nobody knows', () => {
    notices.onEvent(null, event('a', STOPPED));
    notices.onNodes(list({ nodes: [node('a', { state: 'STOPPED' })] }));
    notices.onNodes(list({ error: STOCKOUT }));
    notices.onNodes(list({ unreachable: ['us-central1-a'] }));
    notices.onNodes(null);
    expect(shown()).toEqual([STOPPED]);

    notices.onNodes(list());

    expect(shown()).toEqual([]);
  });

  it('keeps what it says of a node that was not there before', () => {
    notices.onNodes(list());
    notices.onEvent(null, event('ghost', 'There is no node ghost.'));
    notices.onNodes(list());

    expect(shown()).toEqual(['There is no node ghost.']);
  });

  it('withdraws a notice when its kernels run again', () => {
    const ready = { phase: 'ready', error_code: '' };
    notices.onEvent(null, event('a', 'The kernel died.', { kernel_id: 'first' }));
    notices.onEvent(null, event('a', 'The kernel died.', { kernel_id: 'second' }));

    notices.onEvent(null, event('a', 'It runs.', { kernel_id: 'first', ...ready }));
    expect(shown()).toEqual(['The kernel died.']);
    notices.onEvent(null, event('a', 'It runs.', { kernel_id: 'second', ...ready }));

    expect(shown()).toEqual([]);
  });
});
