import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Signal } from '@lumino/signaling';
import React from 'react';
import { IAuditEntry, IGrantMail, INodeAutostop, ISpendOfNode } from '../api.generated';
import { Header } from '../components/header';
import { SaidContext } from '../components/problem';
import { afterKernel, afterLink, afterNode } from '../money/connections';
import { CleanupQuestion } from '../money/dialogs';
import { moneyRenderers } from '../money/renderers';
import { IMoneyActions } from '../money/section';
import { IMoneyModel, IPart, IParts, SectionName } from '../money/tokens';
import { TpuRequestError } from '../request';
import { Item } from '../spend/statusitem';
import { intent, list, node, STOCKOUT, trans } from './fixtures';
import {
  answered,
  autostop,
  budget,
  grant,
  item,
  limit,
  NODE,
  queued,
  search,
  spend,
  unanswered
} from './moneyfixtures';

afterEach(cleanup);

const HOSTILE = '<img src=x onerror="alert(1)">';

const NOTHING: IPart<never> = { dated: null, problem: null };

const PARTS: IParts = {
  spend: NOTHING,
  autostops: NOTHING,
  recovery: NOTHING,
  searches: NOTHING,
  grants: NOTHING,
  quota: NOTHING,
  queue: NOTHING,
  cleanup: NOTHING,
  audit: NOTHING
};

const RUNNING: ISpendOfNode = {
  ...{ name: 'n', node_id: 'n', zone: 'z', accelerator_type: 'v5litepod-8', spot: false },
  ...{ provisioning: 'on-demand', usd_per_hour: 9.6, price_source: null, ready_s: 0, usd: 0 },
  ...{ is_open: true, unwatched_s: 0 }
};

const REST = { as_of: 1000, error: null, uncounted: [], source: null };
const WHOLE = { ...REST, is_complete: true, unreachable: [] };
const PARTIAL = { ...REST, is_complete: false, unreachable: ['us-east1-d'] };

function actions(): jest.Mocked<IMoneyActions> {
  const done = (): jest.Mock => jest.fn().mockResolvedValue(undefined);
  return {
    onToggle: jest.fn(),
    onKeepRunning: done(),
    onEnd: done(),
    onSetAutostop: done(),
    onSetRecovery: done(),
    onSetBudget: done(),
    onRemoveBudget: done(),
    onParseGrant: done(),
    onSaveGrant: done(),
    onRemoveGrant: done(),
    onOpenForm: jest.fn(),
    onCancelSearch: done(),
    onRemoveQueued: done(),
    onCleanUp: jest.fn().mockResolvedValue(null),
    onStopAll: jest.fn().mockResolvedValue(null)
  };
}

const GETTING = {
  onSearch: jest.fn(),
  onQueue: jest.fn(),
  queued: () => [],
  onRecover: jest.fn(),
  coverage: jest.fn(),
  quotaAfter: jest.fn()
};

function modelOf(
  parts: Partial<IParts>,
  open: readonly SectionName[],
  chosenZone = ''
): IMoneyModel {
  const stateChanged = new Signal<object, void>({});
  return {
    parts: { ...PARTS, ...parts },
    open: new Set(open),
    isShown: () => true,
    chosenZone,
    cuts: new Map(),
    stateChanged
  } as unknown as IMoneyModel;
}

function show(parts: Partial<IParts>, ...open: SectionName[]): jest.Mocked<IMoneyActions> {
  const doing = actions();
  render(moneyRenderers(modelOf(parts, open), doing, GETTING, trans).sections({ nodes: NODES }));
  return doing;
}

const NODES = [
  node('my-node', { name: NODE }),
  node('cheap', { spot: true }),
  node('resting', { billing: false, state: 'STOPPED' })
];

function showRow(
  parts: Partial<IParts>,
  what: 'autostopRow' | 'autostopBrief' | 'autostopAlerts' = 'autostopRow'
): jest.Mocked<IMoneyActions> {
  const doing = actions();
  render(moneyRenderers(modelOf(parts, []), doing, GETTING, trans)[what](node('my-node')));
  return doing;
}

function click(name: string | RegExp): Promise<void> {
  return act(() => Promise.resolve(void fireEvent.click(screen.getByRole('button', { name }))));
}

function fill(label: string, value: string): void {
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
}

describe('the sections', () => {
  it('are closed until they are opened, and say so', async () => {
    const doing = show({});
    const heads = screen.getAllByRole('button', { expanded: false });
    expect(heads.map(head => head.textContent)).toEqual([
      ...[
        'Spend',
        'Grants and credits',
        'Quota',
        'Search and queue',
        'Billable resources and quota',
        'Audit log'
      ]
    ]);
    await click('Quota');
    expect(doing.onToggle).toHaveBeenCalledWith('quota');
  });

  it('get the keyboard focus when an action points to them', () => {
    const model = { ...modelOf({}, ['quota']), revealed: { section: 'quota', turn: 1 } as const };
    render(moneyRenderers(model, actions(), GETTING, trans).sections());
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Quota' }));
  });

  it('leave it to the top of the panel to say that the server does not answer', () => {
    const problem = { ...STOCKOUT, code: 'server_unreachable', message: '' };
    show(
      { spend: { ...answered(spend()), problem }, quota: unanswered(problem) },
      'spend',
      'quota'
    );
    expect(screen.queryByText(/Couldn't load|is not responding/)).toBeNull();
    screen.getByText(/Last updated/);
    screen.getByText('Not loaded yet.');
  });

  it('do not repeat what the top of the panel says', () => {
    const parts = {
      quota: unanswered(STOCKOUT),
      audit: unanswered({ ...STOCKOUT, message: 'Other' })
    };
    const { sections } = moneyRenderers(
      modelOf(parts, ['quota', 'audit']),
      actions(),
      GETTING,
      trans
    );
    render(<SaidContext.Provider value={STOCKOUT.message}>{sections()}</SaidContext.Provider>);
    screen.getByText('Not loaded yet.');
    expect(screen.queryByText(new RegExp(STOCKOUT.message))).toBeNull();
    screen.getByText("Couldn't load: Other");
  });

  it('say what was spent, and the top of the panel what is spent per hour: that of the ledger', () => {
    const today = { usd: 1.25, known_usd: 1.25, ready_s: 3600 };
    const nodes = [{ ...spend().nodes[0], is_open: true, usd_per_hour: 0 }];
    const parts = { spend: answered(spend({ usd_per_hour: 0, today, nodes })) };
    const { sections, rate } = moneyRenderers(modelOf(parts, ['spend']), actions(), GETTING, trans);
    const frame = { trans, isRefreshing: false, freshness: null, onCreate: jest.fn() };
    render(
      <>
        <Header
          {...{ ...frame, rate, status: null, list: list({ nodes: [node('covered-by-a-grant')] }) }}
          onRefresh={jest.fn()}
        />
        {sections()}
      </>
    );
    screen.getByText('1 running · covered by a grant');
    screen.getByText('$1.25 today');
    expect(screen.getByText('Now').nextSibling?.textContent).toBe('covered by a grant');
  });

  it('say in one line that a route does not answer, and show the others', () => {
    show({ spend: answered(spend()), audit: unanswered(STOCKOUT) }, 'spend', 'audit');
    screen.getByText(`Couldn't load: ${STOCKOUT.message}`);
    screen.getByText('Today');
  });

  it('say how old an answer is when there is no newer one', () => {
    const old = { data: spend(), server_s: 1000, received_ms: Date.now() - 600_000 };
    show({ spend: { dated: old, problem: STOCKOUT } }, 'spend');
    screen.getByText('Last updated 10 min ago');
  });

  it('show hostile text as text', () => {
    show(
      {
        spend: answered(spend({ unpriced: [HOSTILE], budgets: [budget({ name: HOSTILE })] })),
        grants: answered({ grants: [grant({ name: HOSTILE, error: HOSTILE })] }),
        cleanup: answered({ ...WHOLE, items: [item({ node_id: HOSTILE, description: HOSTILE })] }),
        searches: answered({ searches: [search({ node_id: HOSTILE, message: HOSTILE })] }),
        audit: answered({
          entries: [logged({ action: HOSTILE, subject: HOSTILE, reason: HOSTILE })]
        })
      },
      ...(['spend', 'grants', 'cleanup', 'capacity', 'audit'] as const)
    );
    expect(screen.getAllByText(HOSTILE).length).toBeGreaterThan(4);
    expect(document.querySelector('img')).toBeNull();
  });
});

function logged(rest: Partial<IAuditEntry>): IAuditEntry {
  const texts = { action: '', subject: '', reason: '', templates: {}, arguments: {} };
  return { at: 1, ...texts, detail: {}, ...rest };
}

describe('the audit log', () => {
  it('tells what was done from what was only asked for', () => {
    const entry = logged({ action: 'stop', subject: 'nodes/a' });
    const refused = logged({ ...entry, subject: 'nodes/b', detail: { error: { message: 'No.' } } });
    show({ audit: answered({ entries: [entry, refused] }) }, 'audit');
    const [done, failed] = screen.getAllByRole('listitem').map(line => line.textContent);
    expect(done).toContain('Stop · a');
    expect(done).not.toContain('failed');
    expect(failed).toContain('Stop · bfailed');
    screen.getByText('No.');
  });
});

describe('budgets that cannot be read', () => {
  it('are told of whatever is open, as text', () => {
    show({ spend: answered(spend({ budgets: [budget({ error: HOSTILE })] })) });
    expect(screen.getByRole('alert').textContent).toContain(HOSTILE);
    expect(document.querySelector('img')).toBeNull();
  });

  it('are no news while all can be read', () => {
    show({ spend: answered(spend({ budgets: [budget()] })) });
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('are confirmed where budgets may be lost', async () => {
    const lost = budget({ name: 'lost-budgets', error: 'The journal was damaged.' });
    const doing = show({ spend: answered(spend({ budgets: [lost] })) }, 'spend');
    await click('Confirm budgets');
    expect(doing.onRemoveBudget).toHaveBeenCalledWith('lost-budgets');
  });
});

describe('the section of spend', () => {
  it('shows what is paid and was paid, and what is not known', () => {
    show({ spend: answered(spend({ unpriced: ['v9-8'] })) }, 'spend');
    expect(screen.getByText('10 h of node time').parentElement?.textContent).toContain('$40.00');
    screen.getByText('Price of v9-8 unknown: not included in the totals.');
  });

  it('shows a budget with its bar and level, and removes it', async () => {
    const doing = show({ spend: answered(spend({ budgets: [budget()] })) }, 'spend');
    screen.getByText('$8.50 of $10.00 a week');
    screen.getByText('85 % used');
    const bar = screen.getByRole('meter', { name: 'Budget weekly' });
    expect(bar.getAttribute('aria-valuenow')).toBe('85');
    await click('Remove the budget weekly');
    expect(doing.onRemoveBudget).toHaveBeenCalledWith('weekly');
  });

  it('says where more may have been used than anybody saw', () => {
    show({ spend: answered(spend({ budgets: [budget({ unwatched: 2 })] })) }, 'spend');
    screen.getByText('Up to $8.50 of $10.00 a week: some of the time was not monitored');
  });

  it('shows a budget that cannot be read as used up, with its error', () => {
    const nothing = { amount: null, unit: null, period: null, action: null, used: null };
    const broken = budget({ ...nothing, fraction: null, level: '100', error: 'It is damaged.' });
    show({ spend: answered(spend({ budgets: [broken] })) }, 'spend');
    screen.getByText('used up');
    within(screen.getByRole('list', { name: 'Budgets' })).getByText('It is damaged.');
  });

  it('sets a budget', async () => {
    const doing = show({ spend: answered(spend()) }, 'spend');
    await click('Set a budget…');
    fill('Amount', '-3');
    await click('Set budget');
    expect(doing.onSetBudget).not.toHaveBeenCalled();
    fill('Amount', '25');
    fill('Resets on', 'friday');
    await click('Set budget');
    const terms = { amount: 25, unit: 'usd', period: 'week', action: 'stop' };
    const window = { resets_on: 'friday', resets_at: '00:00' };
    expect(doing.onSetBudget).toHaveBeenCalledWith('weekly', { ...terms, ...window });
  });

  it('proposes a name for the period, and keeps one that was typed', async () => {
    show({ spend: answered(spend({ budgets: [budget({ name: 'daily' })] })) }, 'spend');
    await click('Set a budget…');
    const name = screen.getByLabelText<HTMLInputElement>('Name');
    expect(name.value).toBe('weekly');
    fill('Period', 'day');
    expect(name.value).toBe('daily-2');
    fill('Period', 'total');
    expect(name.value).toBe('total');
    fill('Name', 'mine');
    fill('Period', 'month');
    expect(name.value).toBe('mine');
  });

  it.each([
    [
      'usd',
      'stop',
      'stops billed nodes at the cap, and deletes those that cannot be stopped, except those under a grant'
    ],
    ['usd', 'stop-all', 'stops all nodes at the cap, and deletes those that cannot be stopped'],
    ['hours', 'stop', 'stops all nodes at the cap, and deletes those that cannot be stopped'],
    ['usd', 'warn', 'only warns']
  ] as const)(
    'says what a budget of %s with %s does to nodes under a grant',
    (unit, action, text) => {
      show({ spend: answered(spend({ budgets: [budget({ unit, action })] })) }, 'spend');
      screen.getByText(text, { exact: false });
    }
  );

  it('offers to stop nodes under a grant too, and offers only that for hours', async () => {
    const doing = show({ spend: answered(spend()) }, 'spend');
    await click('Set a budget…');
    fill('Amount', '25');
    fill('At the cap', 'stop-all');
    await click('Set budget');
    expect(doing.onSetBudget.mock.calls[0][1].action).toBe('stop-all');
    await click('Set a budget…');
    fill('Unit', 'hours');
    expect(screen.getByLabelText<HTMLSelectElement>('At the cap').value).toBe('stop-all');
  });

  it('names the nodes that end at once with a budget below what is used, and asks', async () => {
    const doing = show({ spend: answered(spend()) }, 'spend');
    await click('Set a budget…');
    screen.getByText('Used so far: $1.50');
    fill('Amount', '1.5');
    const notice = screen.getByRole('alert');
    expect(notice.textContent).toContain(
      'You have already used this amount. These nodes will be stopped or deleted now'
    );
    expect(notice.textContent).toContain(
      'Will be stopped (disk and files are kept): my-node in us-central1-a.'
    );
    expect(notice.textContent).toContain(
      'Will be deleted with disk and files: cheap in us-central1-a.'
    );
    expect(notice.textContent).not.toContain('resting');
    await click('Set budget');
    expect(doing.onSetBudget).not.toHaveBeenCalled();
    fireEvent.click(screen.getByLabelText('Stop or delete these nodes now'));
    await click('Set budget');
    expect(doing.onSetBudget.mock.calls[0][1].amount).toBe(1.5);
  });

  it('sets a budget at once that only warns, or that is not used up', async () => {
    const doing = show({ spend: answered(spend()) }, 'spend');
    await click('Set a budget…');
    fill('Amount', '1');
    fill('At the cap', 'warn');
    expect(screen.queryByRole('alert')).toBeNull();
    await click('Set budget');
    expect(doing.onSetBudget).toHaveBeenCalled();
  });

  it('does not end nodes under a grant at the cap, except by a budget of hours', async () => {
    const granted = { ...RUNNING, name: NODE, usd_per_hour: 0 };
    show({ spend: answered(spend({ nodes: [granted] })) }, 'spend');
    await click('Set a budget…');
    fill('Amount', '1');
    expect(screen.getByRole('alert').textContent).not.toContain('my-node');
    fill('Unit', 'hours');
    expect(screen.getByRole('alert').textContent).toContain('my-node');
  });

  it('counts unmonitored time, and time before an unusual reset, as possibly used', async () => {
    show({ spend: answered(spend({ nodes: [{ ...RUNNING, unwatched_s: 1800 }] })) }, 'spend');
    await click('Set a budget…');
    screen.getByText('Used so far: up to $6.30');
    fill('Amount', '6');
    expect(screen.getByRole('alert').textContent).toContain('may already be used');
    fill('Period', 'month');
    fill('Resets at', '09:00');
    screen.getByText('Used so far: up to $44.80');
  });

  it('keeps a budget that is refused, and says why', async () => {
    const doing = show({ spend: answered(spend()) }, 'spend');
    doing.onSetBudget.mockRejectedValue(new TpuRequestError(STOCKOUT));
    await click('Set a budget…');
    fill('Amount', '25');
    await click('Set budget');
    screen.getByText(STOCKOUT.message);
    expect(screen.getByLabelText<HTMLInputElement>('Amount').value).toBe('25');
  });
});

describe('the time left of a node', () => {
  it('is said with its reason, its sources and their ages', () => {
    showRow({ autostops: answered({ as_of: null, nodes: [autostop()] }) });
    screen.getByText('Auto-delete in 42 min · idle');
    screen.getByText('nothing has executed for 18 min');
    screen.getByText('18 min ago');
    screen.getByText('unknown (treated as busy)');
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it.each([
    [null, null, 1, 'no connection'],
    [3520, 'session', 1, 'Activity unknown (treated as busy) · no connection'],
    [3520, 'idle', 0, 'no connection']
  ] as const)(
    'says at most once that unknown activity counts as busy: %j %j',
    (ends_at, ends_why, count, reason) => {
      const about = { ends_at, ends_why, reason: 'no connection' };
      const nodes = [autostop({ verdict: 'unknown', ...about })];
      showRow({ autostops: answered({ as_of: null, nodes }) });
      expect(screen.queryAllByText(/treated as busy/)).toHaveLength(count);
      screen.getByText(reason);
    }
  );

  it('warns', () => {
    const nodes = [autostop({ is_warning: true })];
    showRow({ autostops: answered({ as_of: null, nodes }) }, 'autostopAlerts');
    expect(screen.getByRole('alert').textContent).toBe('Auto-stop for my-node is due soon.');
  });

  it('is said in short on a closed card, and extended by a click', async () => {
    const autostops = answered({ as_of: null, nodes: [autostop()] });
    const doing = showRow({ autostops }, 'autostopBrief');
    screen.getByText('deleted in 42 min');
    expect(document.querySelector('.jp-tpu-Brief [data-icon="ui-components:delete"]')).toBeTruthy();
    screen.getByTitle('Auto-delete in 42 min · idle');
    await click('Keep my-node running 1 h');
    expect(doing.onKeepRunning.mock.calls[0][1]).toEqual({ for_s: 3600 });
  });

  it.each([
    [{ verdict: 'busy' }, 'In use'],
    [{ verdict: 'unknown' }, 'Auto-delete after 1 h idle'],
    [{ verdict: 'unknown', action: 'stop', idle_after_s: 1800 }, 'Auto-stop after 30 min idle'],
    [{ idle_after_s: null, session_s: null }, 'No auto-stop'],
    [{ is_warning: true, ends_at: 1075 }, 'deleted in 1:15'],
    [{ ends_at: 4600 }, 'deleted in 1 h']
  ] as const)('is said in short with %j', (rest, text) => {
    const nodes = [autostop({ ends_at: null, ...rest })];
    showRow({ autostops: answered({ as_of: null, nodes }) }, 'autostopBrief');
    screen.getByText(text, { selector: '.jp-tpu-Node-long' });
    const isEnding = 'ends_at' in rest;
    expect(screen.queryByRole('button', { name: /1 h/ }) !== null).toBe(isEnding);
  });

  it('is kept until the running cell ends, and that is taken back', async () => {
    const sources = [{ source: 'execution', state: 'active', age_s: 0, detail: '' }] as const;
    const first = showRow({ autostops: answered({ as_of: null, nodes: [autostop({ sources })] }) });
    await click('Keep my-node running until this cell ends');
    expect(first.onKeepRunning.mock.calls[0][1]).toEqual({ while_busy: true });
    cleanup();
    const kept = autostop({ sources, kept_while_busy: true });
    const then = showRow({ autostops: answered({ as_of: null, nodes: [kept] }) });
    screen.getByText('Keeps running until the current cell ends');
    await click('Cancel “keep running” for my-node');
    expect(then.onKeepRunning.mock.calls[0][1]).toEqual({});
  });

  it('is kept until a time of the day', async () => {
    const doing = showRow({ autostops: answered({ as_of: null, nodes: [autostop()] }) });
    await click('Keep my-node running until a set time');
    fill('Keep running until', '');
    await click('Keep running');
    expect(doing.onKeepRunning).not.toHaveBeenCalled();
    fill('Keep running until', '18:00');
    await click('Keep running');
    const { until = 0 } = doing.onKeepRunning.mock.calls[0][1];
    expect(until % 60).toBe(0);
    expect(screen.queryByRole('form', { name: /until/ })).toBeNull();
  });

  it('leaves the question for a time by Escape, with the focus where it was', async () => {
    showRow({ autostops: answered({ as_of: null, nodes: [autostop()] }) });
    await click('Keep my-node running until a set time');
    expect(document.activeElement).toBe(screen.getByLabelText('Keep running until'));
    fireEvent.keyDown(screen.getByLabelText('Keep running until'), { key: 'Escape' });
    const opener = screen.getByRole('button', { name: 'Keep my-node running until a set time' });
    expect(document.activeElement).toBe(opener);
  });

  it('reminds of a node that is billed though nobody acts', async () => {
    const reminder = {
      since: 0,
      days: 1,
      usd: null,
      text: 'my-node has been billed for 26 h. Its cost so far is $249.60.'
    };
    const autostops = answered({ as_of: null, nodes: [autostop({ reminder })] });
    const doing = showRow({ autostops }, 'autostopAlerts');
    screen.getByText(reminder.text);
    await click('Keep my-node running');
    expect(doing.onKeepRunning.mock.calls[0][1]).toEqual({ for_s: 3600 });
    await click('Delete my-node');
    expect(doing.onEnd.mock.calls[0][1]).toBe('delete');
  });

  it('says that a guard cannot end the node', () => {
    const guard = { state: 'cannot', detail: 'The scope is missing.' } as const;
    showRow({ autostops: answered({ as_of: null, nodes: [autostop({ guard })] }) });
    screen.getByText(
      "Auto-stop needs this Jupyter server: the node can't stop itself. The scope is missing."
    );
  });

  it('is changed', async () => {
    const doing = showRow({ autostops: answered({ as_of: null, nodes: [autostop()] }) });
    await click('Change auto-stop for my-node');
    fill('Idle timeout (minutes)', '30');
    fill('Treat a running cell as idle after (hours)', '3');
    fill('Maximum session length (hours)', '12');
    await click('Save');
    expect(doing.onSetAutostop.mock.calls[0][1]).toEqual({
      ...{ idle_after_s: 1800, unattended_after_s: 10_800, session_s: 43_200, action: 'delete' }
    });
  });

  it('is nothing where no auto-stop is known', () => {
    showRow({ autostops: unanswered(STOCKOUT) });
    expect(document.body.textContent).toBe('');
  });
});

describe('the section of grants', () => {
  it('shows days left and how much is free, also where that is not known', () => {
    const rows = [{ ...grant().rows[0], used: null, free: null }];
    const grants = [grant(), grant({ name: 'old', is_over: true, rows })];
    show({ grants: answered({ grants }) }, 'grants');
    screen.getByText('9 days left');
    screen.getByText('8 used, 56 free');
    screen.getByText('ended 2026-12-01');
    screen.getByText('usage unknown');
  });

  it('reads an email, asks for start and days, and saves', async () => {
    const doing = show({ grants: answered({ grants: [] }) }, 'grants');
    const rows = [{ chips: 64, generation: 'v5e', spot: true, zone: 'us-central1-a' }];
    doing.onParseGrant.mockResolvedValue({
      rows,
      ...{ days: null, proposed_days: 30, sent_on: null },
      problems: ['Line 3 is odd.'],
      notes: []
    });
    await click('Add a grant or credit…');
    fill('Email text', '64 spot v5e');
    await click('Read email');
    screen.getByText('Line 3 is odd.');
    screen.getByText(/No clear term was found in the email. 30 days is TRC.s shortest term/);
    screen.getByText(/The email has no date. Enter the first day./);
    screen.getByDisplayValue('30');
    fill('First day', '2026-11-22');
    await click('Save');
    expect(doing.onSaveGrant).not.toHaveBeenCalled();
    fireEvent.click(screen.getByLabelText('Save without the lines that could not be read'));
    await click('Save');
    expect(doing.onSaveGrant).toHaveBeenCalledWith('trc', {
      ...{ kind: 'trc', starts_on: '2026-11-22', days: 30, rows }
    });
  });
});

describe('the form of a grant', () => {
  it('names the range of a number, and what is missing', async () => {
    show({ grants: answered({ grants: [] }) }, 'grants');
    await click('Add a grant or credit…');
    screen.getByText('To save, paste the email and click “Read email”, or add a row.');
    for (const days of ['-3', '0', '99999']) {
      fill('Days', days);
      screen.getByText('Use a whole number from 1 to 3660.');
    }
    await click('Add a row manually');
    fill('Chips', 'abc');
    screen.getByText('Use a whole number from 1 to 999999.');
    fill('Type', 'credit');
    screen.getByText('To save, enter the amount.');
    fill('Amount in US dollars', '5');
    fill('Days', '');
    screen.getByText('To save, enter the first day and the number of days.');
  });

  it('adds a row once, however often its button is clicked', async () => {
    show({ grants: answered({ grants: [] }) }, 'grants');
    await click('Add a grant or credit…');
    await click('Add a row manually');
    fill('Chips', '64');
    fill('Generation', 'v6e');
    fill('Zone', 'us-east1-d');
    await click('Add row');
    await click('Add row');
    const rows = screen.getByRole('list', { name: 'Grant rows' });
    expect(within(rows).getAllByRole('listitem')).toHaveLength(1);
    expect(screen.getByLabelText<HTMLInputElement>('Chips').value).toBe('');
  });

  it('takes no name that is there, and says what would be replaced', async () => {
    show({ grants: answered({ grants: [grant({ name: 'trc' })] }) }, 'grants');
    await click('Add a grant or credit…');
    screen.getByDisplayValue('trc-2');
    fill('Name', 'trc');
    screen.getByText('Replaces the grant with this name.');
  });

  it('keeps what is typed while an email is read', async () => {
    const doing = show({ grants: answered({ grants: [] }) }, 'grants');
    let answer: (parsed: IGrantMail) => void = () => undefined;
    doing.onParseGrant.mockReturnValue(new Promise(resolve => (answer = resolve)));
    await click('Add a grant or credit…');
    fill('Email text', '64 spot v5e');
    await click('Read email');
    fill('First day', '2026-11-22');
    await act(() => {
      answer({
        rows: [],
        days: 30,
        proposed_days: 30,
        sent_on: '2026-11-01',
        problems: [],
        notes: []
      });
      return Promise.resolve();
    });
    screen.getByDisplayValue('2026-11-22');
    screen.getByDisplayValue('30');
  });

  it('proposes the date and the term of the email', async () => {
    const doing = show({ grants: answered({ grants: [] }) }, 'grants');
    const terms = { days: 90, proposed_days: 90, sent_on: '2026-11-16' };
    doing.onParseGrant.mockResolvedValue({ rows: [], ...terms, problems: [], notes: [] });
    await click('Add a grant or credit…');
    fill('Email text', '64 spot v5e');
    await click('Read email');
    screen.getByDisplayValue('2026-11-16');
    screen.getByDisplayValue('90');
    screen.getByText(/Check the first day/);
  });
});

describe('the section of quota', () => {
  const users = [
    { name: NODE, kind: 'node', state: 'PREEMPTED', amount: 8, is_leftover: true }
  ] as const;

  it('shows limits in use, and all on demand', () => {
    const limits = [
      limit({ users }),
      limit({ quota_id: 'V4', label: 'v4 cores', used: 0, limit: null })
    ];
    show({ quota: answered({ ...WHOLE, error: null, limits }) }, 'quota');
    screen.getByText('8 of 16 chips in use');
    expect(screen.queryByText(/v4 cores/)).toBeNull();
    fireEvent.click(screen.getByRole('checkbox'));
    screen.getByText(/v4 cores/);
    screen.getByText('0 chips in use; limit unknown');
  });

  it('tells the limit of a region from that of one of its zones', () => {
    const limits = [
      limit({ users, quota_id: 'R', scope: 'region', location: 'us-central1' }),
      limit({ users, quota_id: 'Z', scope: 'zone', location: 'us-central1-a' })
    ];
    show({ quota: answered({ ...WHOLE, error: null, limits }) }, 'quota');
    screen.getByText(/ · us-central1 \(region\)$/);
    screen.getByText(/ · us-central1-a$/);
  });

  it('folds limits that nothing uses', () => {
    const unused = Array.from({ length: 30 }, (_, number) =>
      limit({ quota_id: `Q${number}`, label: `quota ${number}`, used: 0 })
    );
    const quota = answered({ ...WHOLE, error: null, limits: [limit(), ...unused] });
    const model = modelOf({ quota }, ['quota'], 'us-central1-a');
    render(moneyRenderers(model, actions(), GETTING, trans).sections());
    expect(
      within(screen.getByRole('list', { name: 'Quota limits' })).getAllByRole('listitem')
    ).toHaveLength(1);
    const folded = screen.getByText('30 unused limits in us-central1-a').closest('details');
    expect(folded?.open).toBe(false);
    expect(folded?.querySelectorAll('li')).toHaveLength(30);
  });

  it('marks leftovers, and frees what they hold', async () => {
    const limits = [limit({ users })];
    const doing = show({ quota: answered({ ...PARTIAL, error: null, limits }) }, 'quota');
    screen.getByText('Incomplete: no response from us-east1-d.');
    screen.getByText('leftover');
    await click('Delete my-node to free its quota');
    expect(doing.onCleanUp).toHaveBeenCalledWith([NODE]);
  });
});

describe('the section of searches and the queue', () => {
  it('shows where searches and queued resources start while there is none', () => {
    const nothing = {
      searches: answered({ searches: [] }),
      queue: answered({ ...WHOLE, items: [] })
    };
    const doing = show(nothing, 'capacity');
    screen.getByText(/^Both start in the form for a new node: choose “Anywhere \(search\)”/);
    fireEvent.click(screen.getByRole('button', { name: 'Create a node' }));
    expect(doing.onOpenForm).toHaveBeenCalledTimes(1);
    cleanup();
    show({ ...nothing, searches: answered({ searches: [search()] }) }, 'capacity');
    expect(screen.queryByRole('button', { name: 'Create a node' })).toBeNull();
  });

  it('shows each try with its raw refusal, and cancels', async () => {
    const doing = show({ searches: answered({ searches: [search()] }) }, 'capacity');
    screen.getByText('1 search running');
    screen.getByText('no capacity');
    screen.getByText('code: 8 There is no more capacity');
    await click('Cancel the search for my-node');
    expect(doing.onCancelSearch).toHaveBeenCalledWith('s1');
  });

  it('shows what waits in the queue, and removes it', async () => {
    const queued = {
      ...{ name: 'q', queued_id: 'my-queued', zone: 'us-central1-a', state: 'FAILED' },
      ...{ state_since: 400, accelerator_type: 'v5litepod-8', spot: false, node_ids: [] },
      ...{ provisioning: 'on-demand' as const, valid_until: null, error: 'No.' },
      ...{ holds_quota: true, is_leftover: true }
    };
    const doing = show({ queue: answered({ ...WHOLE, items: [queued] }) }, 'capacity');
    screen.getByText('v5litepod-8 · us-central1-a · for 10 min · leftover (uses only quota)');
    screen.getByText('No.');
    await click('Remove the queued resource my-queued');
    expect(doing.onRemoveQueued).toHaveBeenCalledWith('us-central1-a', 'my-queued');
  });
});

describe('the section of billable resources', () => {
  it('deletes what is marked, and says what was not', async () => {
    const doing = show(
      { cleanup: answered({ ...WHOLE, items: [item(), item({ name: 'b' })] }) },
      'cleanup'
    );
    const error = { ...STOCKOUT, message: 'Refused.' };
    doing.onCleanUp.mockResolvedValue({ results: [{ name: NODE, ok: false, error }] });
    fireEvent.click(screen.getAllByRole('checkbox')[0]);
    await click('Delete 1 selected…');
    expect(doing.onCleanUp).toHaveBeenCalledWith([NODE]);
    screen.getByText('my-node: Refused.');
  });

  const stopped = { state: 'STOPPED', is_billed: false, is_leftover: false };

  it('selects leftovers together, and never a node that runs or can be started again', async () => {
    const leftover = item({ name: 'c', state: 'PREEMPTED', is_billed: false, is_leftover: true });
    const items = [item(), item({ name: 'b', ...stopped }), leftover];
    const doing = show({ cleanup: answered({ ...WHOLE, items }) }, 'cleanup');
    expect(screen.getAllByText(/leftover/i, { selector: 'span' })).toHaveLength(1);
    await click('Select leftovers');
    doing.onCleanUp.mockResolvedValue(null);
    await click('Delete 1 selected…');
    expect(doing.onCleanUp).toHaveBeenCalledWith(['c']);
  });

  it('does not select leftovers of a partial list together', () => {
    const items = [item({ is_leftover: true })];
    show({ cleanup: answered({ ...PARTIAL, items }) }, 'cleanup');
    screen.getByText('Incomplete: no response from us-east1-d.');
    expect(screen.queryByRole('button', { name: 'Select leftovers' })).toBeNull();
  });

  it('names each resource, its disk and the cost before it is deleted', () => {
    const known = [item(), item({ name: 'p/z/b', node_id: 'b', usd_per_hour: 9.6, ...stopped })];
    const names = known.map(({ name }) => name);
    render(<CleanupQuestion names={names} known={known} emulated={false} trans={trans} />);
    screen.getByText('my-node');
    screen.getByText('Its disk and all files on it are deleted, and its kernels stop.');
    screen.getByText('b');
    screen.getByText(/To keep them, start the stopped node again instead\./);
    screen.getByText('Cost now: $9.60 per hour.');
  });

  it('says of stopped nodes that their disks are billed', () => {
    const known = [item(stopped)];
    render(<CleanupQuestion names={[NODE]} known={known} emulated={true} trans={trans} />);
    screen.getByText('Not billed by the hour; stopped nodes are billed for their disks.');
    screen.getByText(/costs are simulated/);
  });

  it('does not call a partial list empty', () => {
    show({ cleanup: answered({ ...PARTIAL, items: [] }) }, 'cleanup');
    screen.getByText('Nothing found in the zones that responded.');
  });

  it('stops all spending even where the list is not known', async () => {
    const doing = show({ cleanup: unanswered(STOCKOUT) }, 'cleanup');
    await click('Stop everything…');
    expect(doing.onStopAll).toHaveBeenCalled();
  });
});

describe('a lost connection', () => {
  const link = {
    ...{ kernel_id: 'k1', kernel_name: 'spec', node_name: NODE, state: 'down' as const },
    ...{ message: '', error_code: '' }
  };
  const model = (since: number, verdict: 'busy' | 'unknown'): IMoneyModel => ({
    ...modelOf({ autostops: answered({ as_of: null, nodes: [autostop({ verdict })] }) }, []),
    cuts: afterLink(new Map(), { ...link, since })
  });
  const ago = (seconds: number): number => Date.now() / 1000 - seconds;

  // what is shown does not depend on how long a test takes
  beforeEach(() => void jest.spyOn(Date, 'now').mockReturnValue(1_700_000_000_000));
  afterEach(() => jest.restoreAllMocks());

  function card(shown: IMoneyModel): void {
    const row = moneyRenderers(shown, actions(), GETTING, trans).autostopAlerts;
    render(row(node('my-node', { name: NODE })));
  }

  it('is shown on the card of its node', () => {
    card(model(ago(12), 'busy'));
    screen.getByText('No connection to the node for 12 s. The kernel keeps running.');
  });

  it('is not shown any more once the node has been reached', () => {
    card(model(ago(300), 'busy'));
    expect(screen.queryByText(/No connection/)).toBeNull();
    card(model(ago(300), 'unknown'));
    screen.getByText(/No connection to the node for 5 min/);
  });

  it('ends for all kernels of the node, or with its kernel', () => {
    const cuts = afterLink(model(ago(1), 'busy').cuts, { ...link, kernel_id: 'k2', since: ago(1) });
    expect(afterLink(cuts, { ...link, state: 'live', since: ago(0) }).size).toBe(0);
    const died = { ...link, phase: 'died', fraction: null };
    expect([...afterKernel(cuts, died).keys()]).toEqual(['k2']);
  });

  it('ends with the run of the node, and is not one when its node has ended', () => {
    const { cuts } = model(ago(1), 'busy');
    expect(afterNode(cuts, { node_name: NODE, state: 'READY' }).size).toBe(1);
    expect(afterNode(cuts, { node_name: NODE, state: 'STOPPED' }).size).toBe(0);
    const lost = { ...link, state: 'lost' as const, error_code: 'wrong_state', since: ago(1) };
    expect(afterLink(cuts, lost).size).toBe(0);
  });

  it('is shown in the status bar', () => {
    const nodes = [{ ...spend().nodes[0], name: NODE, node_id: 'my-node', is_open: true }];
    const shown = model(ago(12), 'unknown');
    render(
      <Item
        spend={spend({ nodes })}
        model={shown}
        list={null}
        trans={trans}
        onOpen={() => undefined}
      />
    );
    screen.getByRole('button', { name: /my-node disconnected/ });
  });
});

describe('a node that is being recreated', () => {
  it.each([
    ['making', true],
    ['watching', false],
    ['given_up', false]
  ] as const)('is said to be on its card: %s', (state, isSaid) => {
    const recovery = {
      ...{ node_name: NODE, is_on: true, attempts: 1, max_attempts: 3, max_usd: null },
      ...{ state, message: '' }
    };
    const model = modelOf({ recovery: answered({ choices: [recovery] }) }, []);
    render(moneyRenderers(model, actions(), GETTING, trans).recoveryBrief(NODE));
    expect(screen.queryByText('Pre-empted · recreating') !== null).toBe(isSaid);
  });
});

describe('the item of the status bar', () => {
  it('names the rate and the node that ends first, and opens the panel', async () => {
    const nodes = [autostop(), autostop({ node_id: 'later', ends_at: 9000 })];
    const open = jest.fn();
    const model = modelOf({ autostops: answered({ as_of: null, nodes }) }, []);
    render(<Item spend={spend()} model={model} list={null} trans={trans} onOpen={open} />);
    await click('TPU $9.60/h · my-node is deleted in 42 min');
    expect(open).toHaveBeenCalled();
  });

  it('shortens a long name, so that there is room for when the node ends', () => {
    const nodes = [autostop({ node_id: 'a-node-with-a-name-as-long-as-the-api-permits' })];
    const model = modelOf({ autostops: answered({ as_of: null, nodes }) }, []);
    render(<Item spend={spend()} model={model} list={null} trans={trans} onOpen={jest.fn()} />);
    screen.getByText('TPU $9.60/h · a-node-with-a-name-as-l… is deleted in 42 min');
  });

  it('names no auto-stop of a node that ends already', () => {
    const stops = answered({ as_of: null, nodes: [autostop()] });
    const model = modelOf({ autostops: stops }, []);
    const ends = [
      list({ nodes: [node('my-node', { name: NODE, state: 'STOPPING' })] }),
      list({ intents: [intent('my-node', { verb: 'delete', node_name: NODE })] })
    ];
    for (const each of ends) {
      render(<Item spend={spend()} model={model} list={each} trans={trans} onOpen={jest.fn()} />);
      screen.getByRole('button', { name: 'TPU $9.60/h' });
      cleanup();
    }
  });

  it.each([
    ['TPU: creating my-node', [intent('my-node')], ''],
    ['TPU: creating my-node', [intent('my-node')], 'CREATING'],
    ['TPU: creating 2 nodes', [intent('my-node'), intent('other')], ''],
    ['TPU: starting my-node', [], 'STARTING'],
    ['TPU: starting my-node', [intent('my-node', { verb: 'start' })], 'STOPPED'],
    ['TPU: nothing running', [intent('my-node', { settled: true })], ''],
    ['TPU: nothing running', [], 'STOPPED']
  ])('says "%s" while no node is READY', (name, intents, state) => {
    const given = list({ intents, nodes: state ? [node('my-node', { state })] : [] });
    const idle = spend({ usd_per_hour: 0 });
    render(
      <Item spend={idle} model={modelOf({}, [])} list={given} trans={trans} onOpen={jest.fn()} />
    );
    screen.getByRole('button', { name });
  });

  it('counts the queued nodes that wait', () => {
    const items = [queued(), queued({ state: 'ACTIVE' }), queued({ state: 'FAILED' })];
    const queue = answered({ as_of: 1, is_complete: true, unreachable: [], items });
    const idle = spend({ usd_per_hour: 0 });
    render(
      <Item
        spend={idle}
        model={modelOf({ queue }, [])}
        list={null}
        trans={trans}
        onOpen={() => undefined}
      />
    );
    screen.getByRole('button', { name: 'TPU: nothing running · 1 queued' });
  });

  it('says of a node that a grant covers that it runs', () => {
    const nodes = [{ ...spend().nodes[0], name: NODE, node_id: 'my-node', is_open: true }];
    const free = spend({ nodes, usd_per_hour: 0 });
    const stops = [autostop({ action: 'stop' })];
    const model = modelOf({ autostops: answered({ as_of: null, nodes: stops }) }, []);
    render(<Item spend={free} model={model} list={null} trans={trans} onOpen={() => undefined} />);
    screen.getByRole('button', {
      name: 'TPU: covered by a grant · my-node stops in 42 min · idle'
    });
  });

  it('counts as in use only what works, and leaves out when a busy node would stop as idle', () => {
    const names = [NODE, `${NODE}-2`];
    const nodes = names.map(name => ({ ...spend().nodes[0], name, node_id: 'a', is_open: true }));
    const works = [
      { source: 'execution' as const, state: 'active' as const, age_s: 0, detail: '' }
    ];
    const session = { ends_why: 'session' as const, verdict: 'busy' as const };
    const stops = names.map(name => autostop({ name, ...session }));
    const text = (given: INodeAutostop[], busy: readonly string[] = []): string | null => {
      const model = modelOf({ autostops: answered({ as_of: null, nodes: given }) }, []);
      const shown = { model, list: null, busy: new Set(busy), trans, onOpen: jest.fn() };
      const open = nodes.slice(0, given.length);
      const { container, unmount } = render(<Item spend={spend({ nodes: open })} {...shown} />);
      const { textContent } = container;
      expect(screen.getByRole('button').title).toContain(`${textContent}\n`);
      unmount();
      return textContent;
    };
    const head = 'TPU $9.60/h · my-node is deleted in 42 min';
    expect(text(stops)).toBe(`${head} · 0 of 2 nodes in use`);
    expect(text([stops[0], { ...stops[1], sources: works }])).toBe(`${head} · 1 of 2 nodes in use`);
    expect(text(stops, names)).toBe(`${head} · 2 of 2 nodes in use`);
    expect(text([autostop({ verdict: 'unknown' })])).toBe(head);
    expect(text([autostop()])).toBe(`${head} · idle`);
    expect(text([autostop()], [NODE])).toBe('TPU $9.60/h · in use');
  });

  it.each([
    [0.96, '96 % of budget'],
    [0.999, '99 % of budget'],
    [1.05, '105 % of budget'],
    [2.44, '2.4 × the budget'],
    [696.81, '697 × the budget']
  ])('says how much of the budget is used: %s', (fraction, text) => {
    const used = spend({ budgets: [budget({ fraction })] });
    const model = modelOf({}, []);
    render(<Item spend={used} model={model} list={null} trans={trans} onOpen={() => undefined} />);
    expect(screen.getByRole('button').textContent).toContain(` · ${text}`);
  });
});
