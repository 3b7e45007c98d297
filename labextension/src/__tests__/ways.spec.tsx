import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { CreateForm } from '../create/createform';
import { ICreateActions } from '../create/draft';
import { TpuRequestError } from '../request';
import { list, OFFERS, STOCKOUT, trans } from './fixtures';

const ROW = {
  ...{ quota_id: 'q', label: 'v5e chips', location: 'us-central1-a', unit: 'chips' },
  ...{ limit: 16, used: 8, asked: 8, after: 0, fits: true }
};

const BILLED = {
  ...{ covered: false, grant: null, until: null, usd_per_hour: 9.6 },
  detail: 'your TRC grant trc covers v5e there only as spot',
  ...{ text: 'billed: $9.60/h', not_covered: ['egress'] },
  autostop: { action: 'stop', idle_after_s: 3600, idle_at_most_s: 7200 }
};

function createActions(rest: Partial<ICreateActions> = {}): jest.Mocked<ICreateActions> {
  return {
    onSearch: jest.fn().mockResolvedValue(undefined),
    onQueue: jest.fn().mockResolvedValue(undefined),
    queued: () => [],
    onRecover: jest.fn(),
    coverage: jest.fn().mockResolvedValue(BILLED),
    quotaAfter: jest.fn().mockResolvedValue({ rows: [ROW] }),
    ...rest
  } as jest.Mocked<ICreateActions>;
}

describe('the form, where there are other ways to a node', () => {
  const onCreate = jest.fn();
  const onCancel = jest.fn();

  beforeEach(() => {
    jest.useFakeTimers();
    onCreate.mockReset().mockResolvedValue(undefined);
    onCancel.mockReset();
  });

  afterEach(() => {
    cleanup();
    jest.useRealTimers();
  });

  function open(actions: ICreateActions, idleDefault_s = 0): void {
    render(
      <CreateForm
        offers={OFFERS}
        list={list()}
        trans={trans}
        createActions={actions}
        idleDefault_s={idleDefault_s}
        onCreate={onCreate}
        onCancel={onCancel}
      />
    );
  }

  function summary(): string | null {
    return screen.getByRole('status', { name: 'Price and quota for this choice' }).textContent;
  }

  function later(): Promise<void> {
    return act(async () => {
      await jest.advanceTimersByTimeAsync(400);
    });
  }

  function click(role: 'radio' | 'checkbox' | 'button', name: string | RegExp): Promise<void> {
    return act(() => Promise.resolve(void fireEvent.click(screen.getByRole(role, { name }))));
  }

  function choose(terms: string): void {
    fireEvent.change(screen.getByLabelText('Provisioning model'), { target: { value: terms } });
  }

  it('says before the click whether it is billed, and what it leaves of the quota', async () => {
    open(createActions());
    await later();
    screen.getByText(BILLED.detail);
    screen.getByText('egress');
    screen.getByText('v5e chips · us-central1-a: 0 of 16 chips left afterwards');
  });

  it('has one sentence with the price', async () => {
    open(createActions());
    await later();
    expect(summary()).toBe(
      '$9.60 per hour on-demand · auto-stop after 1 h idle (2 h if a cell runs without output); ' +
        'costs at most $19.20 if you forget the node' +
        BILLED.detail
    );
    expect(screen.queryByText(/nothing is billed|^billed/i)).toBeNull();
  });

  it('knows the idle timeout of the settings', async () => {
    open(createActions(), 1800);
    await later();
    expect(summary()).toContain(
      'auto-stop after 30 min idle (2 h if a cell runs without output); costs at most $19.20'
    );
  });

  it('names the grant that pays, and the price after it, in the same sentence', async () => {
    const granted = { ...BILLED, covered: true, grant: 'trc', until: '2027-01-29', detail: '' };
    open(createActions({ coverage: jest.fn().mockResolvedValue(granted) }));
    await later();
    expect(summary()).toBe(
      'Free under your TRC grant trc until 2027-01-29, then $9.60 per hour on-demand' +
        ' · auto-stop after 1 h idle (2 h if a cell runs without output)'
    );
  });

  it('says what does not fit', async () => {
    const row = { ...ROW, asked: 16, after: -8, fits: false };
    open(createActions({ quotaAfter: jest.fn().mockResolvedValue({ rows: [row] }) }));
    await later();
    screen.getByText(/16 chips requested, but only 8 of 16 free/);
  });

  it('asks once for a choice that changes quickly, and shows nothing of an older one', async () => {
    const actions = createActions();
    open(actions);
    await click('radio', /v5litepod-1 /);
    await click('radio', /v5litepod-8 /);
    await later();
    expect(actions.coverage).toHaveBeenCalledTimes(1);
    await click('radio', /v5litepod-1 /);
    expect(screen.queryByText(BILLED.detail)).toBeNull();
  });

  it('says what could not be asked, and can still create', async () => {
    const refuse = jest.fn().mockRejectedValue(new TpuRequestError(STOCKOUT));
    open(createActions({ coverage: refuse, quotaAfter: refuse }));
    await later();
    screen.getByText(`Billing: unknown (${STOCKOUT.message})`);
    await click('button', 'Create');
    expect(onCreate).toHaveBeenCalled();
  });

  it('does not say twice why nothing can be asked', async () => {
    const scroll = jest.fn();
    HTMLElement.prototype.scrollIntoView = scroll;
    const coverage = jest.fn().mockRejectedValue(new TpuRequestError(STOCKOUT));
    render(
      <CreateForm
        offers={OFFERS}
        list={list()}
        trans={trans}
        createActions={createActions({ coverage })}
        blocked={STOCKOUT}
        onCreate={onCreate}
        onCancel={onCancel}
      />
    );
    await later();
    expect(coverage).toHaveBeenCalled();
    expect(screen.getAllByText(STOCKOUT.message, { exact: false })).toHaveLength(1);
    expect(scroll.mock.contexts).toEqual([screen.getByRole('heading')]);
    delete (HTMLElement.prototype as Partial<HTMLElement>).scrollIntoView;
  });

  it('searches the zones that are left', async () => {
    const actions = createActions();
    open(actions);
    fireEvent.change(screen.getByLabelText('Location'), { target: { value: '' } });
    await click('checkbox', 'v6e-8 · us-east1-d');
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Search' }).disabled).toBe(true);
    await click('checkbox', 'Also create the node in zones where the price is unknown: us-east1-d');
    fireEvent.change(screen.getByLabelText('Keep trying for (minutes)'), {
      target: { value: '30' }
    });
    await click('button', 'Search');
    const terms = actions.onSearch.mock.calls[0][0];
    expect(terms).toMatchObject({
      ...{ node_id: 'node-1', queue_minutes: 30, accept_unknown_price: true }
    });
    expect(terms.candidates.map(({ zone }) => zone)).toEqual(['us-central1-a', 'us-east1-d']);
    expect(onCreate).not.toHaveBeenCalled();
    expect(onCancel).toHaveBeenCalled();
  });

  it('queues for as long as is said', async () => {
    const actions = createActions();
    open(actions);
    await click('radio', /^Queue/);
    fireEvent.change(screen.getByLabelText('Give up after'), { target: { value: '3600' } });
    await click('button', 'Queue');
    expect(actions.onQueue).toHaveBeenCalledWith(
      expect.objectContaining({ node_id: 'node-1', valid_for_s: 3600 })
    );
  });

  it('does not reuse the name of a queued node', async () => {
    const queued = [{ zone: 'us-east1-d', node_id: 'node-1' }];
    const actions = createActions({ queued: () => queued });
    open(actions);
    await click('button', 'Create');
    expect(onCreate).toHaveBeenCalledWith(expect.objectContaining({ node_id: 'node-2' }));
    fireEvent.change(screen.getByLabelText('Location'), { target: { value: '' } });
    fireEvent.change(screen.getByLabelText('Name'), { target: { value: 'node-1' } });
    await click('button', 'Search');
    screen.getByText('A node with this name is already queued in us-east1-d.');
    expect(actions.onSearch).not.toHaveBeenCalled();
  });

  it('has a spot node made again when the user says so, once it is asked for', async () => {
    const actions = createActions();
    open(actions);
    expect(screen.queryByRole('checkbox', { name: /again/ })).toBeNull();
    choose('spot');
    await click('checkbox', 'Recreate after pre-emption');
    await click('checkbox', 'Create anyway (price unknown)');
    await click('button', 'Create');
    expect(actions.onRecover).toHaveBeenCalledWith(expect.objectContaining({ node_id: 'node-1' }));
  });

  it('queues for flex-start with a run time, and offers no other way', async () => {
    const actions = createActions();
    open(actions);
    choose('flex-start');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: /^Queue/ }).checked).toBe(true);
    fireEvent.change(screen.getByLabelText('Run for (hours)'), { target: { value: '200' } });
    await click('checkbox', 'Create anyway (price unknown)');
    await click('button', 'Queue');
    screen.getByText('Enter 0.02 to 168 hours.');
    expect(actions.onQueue).not.toHaveBeenCalled();
    fireEvent.change(screen.getByLabelText('Run for (hours)'), { target: { value: '2' } });
    await click('button', 'Queue');
    expect(actions.onQueue).toHaveBeenCalledWith(
      expect.objectContaining({ provisioning: 'flex-start', run_for_s: 7200, valid_for_s: 21_600 })
    );
  });

  it('asks for internal addresses where external ones are used up', async () => {
    open(createActions());
    await click('checkbox', 'Internal addresses only');
    await click('button', 'Create');
    expect(onCreate).toHaveBeenCalledWith(expect.objectContaining({ internal_ips: true }));
  });
});
