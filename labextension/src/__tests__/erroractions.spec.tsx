import { Notification } from '@jupyterlab/apputils';
import { act, cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { IAction } from '../api.generated';
import { Problem } from '../components/problem';
import { consoleUrl } from '../console';
import { CreationNotices } from '../creationnotices';
import { ACTION_COMMANDS, ErrorActions, ErrorActionsContext } from '../erroractions';
import { IDatedList, IProblem } from '../tokens';
import { intent, list, STOCKOUT, trans } from './fixtures';

const CHOICE = { zone: 'us-west4-a', node_id: 'a', accelerator_type: 'v5litepod-8' };
const TRY: IAction = { command: 'tpu:open-form', args: { way: 'now', ...CHOICE }, label: '' };
const SEARCH: IAction = { command: 'tpu:open-form', args: { way: 'search', ...CHOICE }, label: '' };
const QUOTA: IAction = {
  command: 'tpu:show-section',
  args: { section: 'quota', zone: 'us-west4-a' },
  label: ''
};

const HINT =
  'Try the other zones that offer this type (us-west4-a): `jupyter tpu search a --types v5litepod-8`.';

const FAILED = {
  ...STOCKOUT,
  hint: HINT,
  arguments: { zones: 'us-west4-a' },
  actions: [TRY, SEARCH]
};

let commands: CommandRegistry;
let ran: [string, object][];
let actions: ErrorActions;

beforeEach(() => {
  ran = [];
  commands = new CommandRegistry();
  Object.values(ACTION_COMMANDS).forEach(id =>
    commands.addCommand(id, { execute: args => void ran.push([id, args]) })
  );
  actions = new ErrorActions(commands, trans);
  Notification.dismiss();
});

afterEach(cleanup);

function show(problem: Partial<IProblem>, onDismiss?: () => void): void {
  render(
    <ErrorActionsContext.Provider value={actions}>
      <Problem problem={{ ...FAILED, ...problem }} trans={trans} onDismiss={onDismiss} />
    </ErrorActionsContext.Provider>
  );
}

function buttons(): (string | null)[] {
  return screen.queryAllByRole('button').map(button => button.textContent);
}

describe('an error with actions', () => {
  it('has a button for each of them, before the one that dismisses it', () => {
    show({ actions: [TRY, SEARCH, QUOTA] }, jest.fn());
    expect(buttons()).toEqual(['Try us-west4-a', 'Search other zones', 'Show quota', 'Dismiss']);
  });

  it('runs the command with its arguments', () => {
    show({});
    fireEvent.click(screen.getByRole('button', { name: 'Try us-west4-a' }));
    expect(ran).toEqual([['tpu:open-form', TRY.args]]);
  });

  it('can be reached by the keyboard in the order in which it is read', () => {
    show({});
    const details = screen.getByText('Details');
    const first = screen.getByRole('button', { name: 'Try us-west4-a' });
    first.focus();
    expect(document.activeElement).toBe(first);
    expect(screen.getAllByRole<HTMLButtonElement>('button').every(one => one.tabIndex === 0)).toBe(
      true
    );
    expect(details.compareDocumentPosition(first) & Node.DOCUMENT_POSITION_FOLLOWING).toBeTruthy();
  });

  it('sends nobody to a terminal: its command and the original message are folded', () => {
    show({});
    const details = document.querySelector('details');
    expect(details?.open).toBe(false);
    within(details as HTMLElement).getByText(HINT);
    within(details as HTMLElement).getByText(FAILED.raw);
    screen.getByText('Other zones that offer this type: us-west4-a.');
    expect(screen.getAllByText(/jupyter tpu/)).toHaveLength(1);
  });

  it('names the way in the panel for who is not signed in', () => {
    const hint = 'Run `gcloud auth application-default login`, or try `jupyter tpu demo`.';
    const args = { command_line: 'gcloud auth application-default login' };
    show({ code: 'credentials_missing', hint, actions: [{ ...COPY, args }] });
    screen.getByText(/or open First steps in the TPU panel to try/);
    expect(screen.getByText(hint).closest('details')?.open).toBe(false);
    expect(buttons()).toEqual(['Copy command']);
  });

  it('still shows a command for what the panel cannot do', () => {
    const hint = 'Run `gcloud iam service-accounts list`.';
    const args = { command_line: 'gcloud iam service-accounts list' };
    show({ code: 'permission_denied', hint, actions: [{ ...COPY, args }] });
    expect(screen.getByText(hint).closest('details')).toBeNull();
    expect(buttons()).toEqual(['Copy command']);
  });

  it('shows the time until which a budget is used up', () => {
    const hint = 'Wait until Mon 00:00, or raise or remove the budget with `jupyter tpu budget`.';
    const raise: IAction = { command: 'tpu:raise-budget', args: { name: 'week' }, label: '' };
    const values = { time: 'Mon 00:00' };
    show({ code: 'budget_exceeded', hint, arguments: values, actions: [raise] });
    screen.getByText('Wait until Mon 00:00, or raise the budget.');
    expect(buttons()).toEqual(['Raise budget…']);
  });

  it('is withdrawn when its action has removed the cause', async () => {
    const raise: IAction = { command: 'tpu:raise-budget', args: { name: 'week' }, label: '' };
    let hasRoom = false;
    const own = new CommandRegistry();
    own.addCommand('tpu:raise-budget', { execute: () => Promise.resolve(hasRoom) });
    actions = new ErrorActions(own, trans);
    show({ code: 'budget_exceeded', actions: [raise] });
    const click = (): void =>
      void fireEvent.click(screen.getByRole('button', { name: 'Raise budget…' }));
    click();
    await act(() => Promise.resolve());
    screen.getByRole('alert');
    hasRoom = true;
    click();
    await waitFor(() => expect(screen.queryByRole('alert')).toBeNull());
  });

  it('has no button for a command that does not exist here', () => {
    const newer = { ...TRY, command: 'terminal:create-new' } as unknown as IAction;
    commands.addCommand('terminal:create-new', { execute: () => undefined });
    show({ actions: [newer, QUOTA] });
    expect(buttons()).toEqual(['Show quota']);
  });

  it('shows its hint where it has no buttons', () => {
    render(<Problem problem={FAILED} trans={trans} />);
    expect(screen.getByText(HINT).closest('details')).toBeNull();
    expect(buttons()).toEqual([]);
  });

  it('notifies when its command fails', async () => {
    const failing = new CommandRegistry();
    failing.addCommand('tpu:open-form', { execute: () => Promise.reject(new Error('No form.')) });
    void new ErrorActions(failing, trans).run(TRY);
    await act(() => Promise.resolve());
    await act(() => Promise.resolve());
    expect(shown()).toEqual(['No form.']);
  });
});

const COPY: IAction = { command: 'tpu:copy-command', args: {}, label: '' };

describe('labels', () => {
  const labels: [IAction['command'], IAction['args'], string][] = [
    ['tpu:open-form', { way: 'queue' }, 'Wait in the queue'],
    ['tpu:show-section', { section: 'cleanup' }, 'Clean up'],
    ['tpu:show-section', { section: 'spend' }, 'Show budgets'],
    ['tpu:show-section', { section: 'grants' }, 'Show grants'],
    ['tpu:show-section', { section: 'capacity' }, 'Show searches and queue'],
    ['tpu:open-console', { page: 'api' }, 'Enable API'],
    ['tpu:open-console', { page: 'billing' }, 'Link billing account'],
    ['tpu:start-node', {}, 'Start node'],
    ['tpu:stop-node', {}, 'Stop node…'],
    ['tpu:delete-node', {}, 'Delete node…'],
    ['tpu:refresh', {}, 'Refresh list']
  ];

  it.each(labels)('%s %j: %s', (command, args, label) => {
    expect(actions.label({ command, args, label: '' })).toBe(label);
  });
});

describe('a page of the console', () => {
  it('is that of the API, or of the billing account', () => {
    expect(consoleUrl('api', 'my-project', '')).toBe(
      'https://console.cloud.google.com/apis/library/tpu.googleapis.com?project=my-project'
    );
    expect(consoleUrl('billing', 'my-project', '')).toBe(
      'https://console.cloud.google.com/billing/linkedaccount?project=my-project'
    );
  });

  it('is on no other host, whatever a project is called', () => {
    const url = new URL(consoleUrl('api', '@evil.example/#', '../../@evil.example?'));
    expect(url.origin).toBe('https://console.cloud.google.com');
    expect(url.searchParams.get('project')).toBe('@evil.example/#');
  });
});

function shown(): string[] {
  return Notification.manager.notifications.map(({ message }) => message);
}

describe('a creation that fails', () => {
  const nodes = { list: null as IDatedList | null, isWatched: false };
  let notices: CreationNotices;

  const failed = (node_id: string): ReturnType<typeof intent> =>
    intent(node_id, {
      settled: true,
      error: { ...FAILED, message: `No ${node_id}.`, actions: [TRY, SEARCH, QUOTA] }
    });

  function listed(...intents: ReturnType<typeof intent>[]): void {
    nodes.list = list({ intents });
    notices.onChange();
  }

  beforeEach(() => {
    nodes.isWatched = false;
    notices = new CreationNotices(nodes, actions);
  });

  it('notifies once while the panel is closed, with the actions that fit into a line', () => {
    listed(intent('a'));
    expect(shown()).toEqual([]);
    listed(failed('a'));
    listed(failed('a'));
    expect(shown()).toEqual(['No a.']);
    const [{ options }] = Notification.manager.notifications;
    expect(options.actions?.map(({ label }) => label)).toEqual([
      'Try us-west4-a',
      'Search other zones'
    ]);
    options.actions?.[0].callback(new MouseEvent('click'));
    expect(ran).toEqual([['tpu:open-form', TRY.args]]);
  });

  it('does not notify while the panel shows it', () => {
    const notify = jest.spyOn(Notification, 'error');
    nodes.isWatched = true;
    listed(intent('a'));
    listed(failed('a'));
    nodes.isWatched = false;
    listed(failed('a'));
    expect(notify).not.toHaveBeenCalled();
    notify.mockRestore();
  });

  it('does not notify of what failed before the page was loaded', () => {
    listed(failed('a'));
    expect(shown()).toEqual([]);
  });

  it('does not notify of other failures', () => {
    listed();
    listed({ ...failed('a'), verb: 'stop' });
    expect(shown()).toEqual([]);
  });

  it('is withdrawn when it was dismissed, or the panel is opened', () => {
    listed();
    listed(failed('a'), failed('b'));
    expect(shown()).toHaveLength(2);
    listed(failed('b'));
    expect(shown()).toEqual(['No b.']);
    nodes.isWatched = true;
    listed(failed('b'));
    expect(shown()).toEqual([]);
  });
});
