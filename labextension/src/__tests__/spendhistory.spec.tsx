import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { Signal } from '@lumino/signaling';
import React from 'react';
import { ISpend, ISpendHistory, ISpendOfSlot } from '../api.generated';
import { IDated, IMoneyModel, IPart } from '../money/tokens';
import { TpuRequestError } from '../request';
import { SpendHistory } from '../spend/history';
import { barsOf, curveOf, IBars, ICurve } from '../spend/historydata';
import { HistoryAnswer, HistoryChoice, SPANS, SpendHistoryModel } from '../spend/historymodel';
import { STOCKOUT, trans } from './fixtures';
import { answered, budget, spend } from './moneyfixtures';

afterEach(cleanup);

const NOON = new Date(2026, 10, 22, 12).getTime() / 1000;
const HOSTILE = '<img src=x onerror="alert(1)">';
const NOTHING = { usd: 0, known_usd: 0, up_to_usd: 0, ready_s: 0, unpriced_s: 0, unwatched_s: 0 };

function slot(hour: number, rest: Partial<ISpendOfSlot> = {}): ISpendOfSlot {
  const starts_at = NOON + (hour - 12) * 3600;
  return { starts_at, ends_at: starts_at + 3600, day: '2026-11-22', ...NOTHING, ...rest };
}

const SEEN = { ...NOTHING, usd: 9.6, known_usd: 9.6, up_to_usd: 9.6, ready_s: 3600 };
const UNWATCHED = { ...NOTHING, up_to_usd: 4.8, unwatched_s: 1800 };
const UNPRICED = { ...NOTHING, usd: null, ready_s: 3600, unpriced_s: 3600 };

/** So many hours as are asked for first; those that are not given were without anything. */
function history(given: readonly ISpendOfSlot[], rest: Partial<ISpendHistory> = {}): ISpendHistory {
  const slots = [
    ...Array.from({ length: 24 - given.length }, (_, hour) => slot(hour - 14)),
    ...given
  ];
  return { by: 'hour', currency: 'USD', now: NOON, slots, sum: NOTHING, unpriced: [], ...rest };
}

function course(rest: Parameters<typeof budget>[0] = {}): HistoryAnswer {
  const points = [0, 6, 12].map(hour => ({
    at: NOON + (hour - 12) * 3600,
    used: hour / 2,
    watched: hour / 4
  }));
  return { budget: budget({ used: 6, ...rest }), now: NOON, points, unpriced: ['v2-8'] };
}

/** The rest of the sections, as far as it matters here. */
class Money {
  isWatched = true;
  parts = { spend: { dated: null, problem: null } as IPart<ISpend> };
  readonly stateChanged = new Signal<this, void>(this);

  tell(data = spend()): void {
    this.parts = { spend: answered(data) };
    this.stateChanged.emit();
  }
}

/** A server that answers when it is told to. */
class Past {
  readonly asked: HistoryChoice[] = [];
  readonly money = new Money();
  readonly model = new SpendHistoryModel(
    { spendHistory: choice => this._ask(choice) },
    this.money as unknown as IMoneyModel
  );

  async answer(data: HistoryAnswer, turn = this.asked.length - 1): Promise<void> {
    await act(async () => {
      this._answers[turn][0]({ data, server_s: NOON, received_ms: Date.now() });
      await Promise.resolve();
    });
  }

  async fail(): Promise<void> {
    await act(async () => {
      this._answers[this.asked.length - 1][1](new TpuRequestError(STOCKOUT));
      await Promise.resolve();
    });
  }

  private _ask(choice: HistoryChoice): Promise<IDated<HistoryAnswer>> {
    this.asked.push(choice);
    return new Promise((resolve, reject) => this._answers.push([resolve, reject]));
  }

  private readonly _answers: [(dated: IDated<HistoryAnswer>) => void, (error: Error) => void][] =
    [];
}

describe('the model of money over time', () => {
  it('asks only while somebody looks, and only with new sums', () => {
    const { model, money, asked } = new Past();
    money.tell();
    expect(asked).toEqual([]);
    const subscribe = model.subscribe();
    expect(asked).toEqual([SPANS[0]]);
    money.stateChanged.emit();
    expect(asked).toHaveLength(1);
    money.tell();
    expect(asked).toHaveLength(2);
    money.isWatched = false;
    money.tell();
    expect(asked).toHaveLength(2);
    money.isWatched = true;
    money.tell();
    expect(asked).toHaveLength(3);
    subscribe.dispose();
    money.tell();
    expect(asked).toHaveLength(3);
  });

  it('drops an answer that is no longer waited for', async () => {
    const past = new Past();
    past.model.choose({ budget: 'weekly' });
    past.model.choose(SPANS[1]);
    const days = history([], { by: 'day' });
    await past.answer(days, 1);
    await past.answer(course(), 0);
    expect(past.model.part.dated?.data).toBe(days);
  });

  it('keeps what it knew beside what went wrong', async () => {
    const past = new Past();
    past.model.choose({ budget: 'weekly' });
    await past.answer(course());
    past.model.subscribe();
    past.money.tell(spend({ budgets: [budget()] }));
    await past.fail();
    expect(past.model.part.problem).toEqual(STOCKOUT);
    expect(past.model.part.dated).not.toBeNull();
  });

  it('shows the choice before until there is an answer, and not beside what went wrong', async () => {
    const past = new Past();
    past.model.choose({ budget: 'weekly' });
    await past.answer(course());
    past.model.choose(SPANS[2]);
    expect(past.model.part.dated?.data).toHaveProperty('budget');
    await past.fail();
    expect(past.model.part.dated).toBeNull();
  });

  it('goes back to the hours when the budget that it shows is gone', () => {
    const { model, money, asked } = new Past();
    model.subscribe();
    model.choose({ budget: 'weekly' });
    money.tell(spend({ budgets: [budget()] }));
    expect(model.choice).toEqual({ budget: 'weekly' });
    money.tell(spend());
    expect(model.choice).toBe(SPANS[0]);
    expect(asked[asked.length - 1]).toBe(SPANS[0]);
  });
});

interface IShown {
  past: Past;
  bars: IBars[];
  curves: ICurve[];
}

async function show(
  data: HistoryAnswer,
  budgets = [budget()],
  isEmulated = false
): Promise<IShown> {
  const past = new Past();
  const [bars, curves]: [IBars[], ICurve[]] = [[], []];
  const plot = <T,>(drawn: T[]) => {
    const show = (what: T): void => void drawn.push(what);
    return () => Promise.resolve({ show, dispose: () => undefined });
  };
  const plots = { bars: plot(bars), curve: plot(curves) };
  past.money.tell(spend({ budgets }));
  render(<SpendHistory history={past.model} {...{ budgets, plots, isEmulated, trans }} />);
  screen.getByText('Loading…');
  await past.answer(data);
  return { past, bars, curves };
}

describe('money over time', () => {
  it('is a chart, the same in words, and a table', async () => {
    const { bars } = await show(history([slot(10, SEEN), slot(11), slot(12, SEEN)], { sum: SEEN }));
    expect(bars[0].known.slice(-3)).toEqual([9.6, 0, 9.6]);
    const chart = screen.getByRole('img');
    expect(chart.getAttribute('aria-label')).toMatch(
      /^Spending per hour, last 24 hours\. Total \$9\.60 · 1 h of node time\. Highest: \$9\.60 at 10:00/
    );
    const table = screen.getByRole('table', { hidden: true });
    const rows = within(table).getAllByRole('row', { hidden: true });
    expect(rows.map(row => row.textContent)).toEqual([
      'FromCostREADY for',
      expect.stringMatching(/^12:00.*\$9\.601 h$/),
      expect.stringMatching(/^10:00.*\$9\.601 h$/)
    ]);
  });

  it('says that the times are those of the emulated clock', async () => {
    await show(history([slot(10, SEEN)]), [], true);
    const hours = screen.getByRole('columnheader', { name: 'From (emulated)', hidden: true });
    expect(hours).toBeTruthy();
  });

  it('tells what was seen from what nobody watched and from what has no price', async () => {
    const slots = [slot(10, SEEN), slot(11, UNWATCHED), slot(12, UNPRICED)];
    const { bars } = await show(
      history(slots, { sum: { ...SEEN, ...UNPRICED, known_usd: 9.6 }, unpriced: ['v9-8'] })
    );
    expect(bars[0].known.slice(-3)).toEqual([9.6, 0, 0]);
    expect(bars[0].upTo.slice(-3)).toEqual([null, 4.8, null]);
    expect(bars[0].isUnpriced.slice(-3)).toEqual([false, false, true]);
    screen.getByText('estimated maximum for unmonitored time');
    screen.getByText('plus unknown prices: v9-8');
    screen.getByText('Last 24 hours: at least $9.60 · 1 h of node time');
    screen.getByText('$0.00, up to $4.80');
    screen.getByText('cost unknown');
  });

  it('says that the chart lags behind the totals until it is answered', async () => {
    const { past } = await show(history([slot(12, SEEN)], { sum: SEEN }));
    expect(screen.queryByText(/updating/)).toBeNull();
    act(() => past.money.tell());
    screen.getByText(/updating…/);
    await past.answer(history([slot(12, SEEN)], { sum: { ...SEEN, known_usd: 9.7, usd: 9.7 } }));
    expect(screen.queryByText(/updating/)).toBeNull();
    screen.getByText('Last 24 hours: $9.70 · 1 h of node time');
  });

  it('draws no chart of one bar', async () => {
    const { bars } = await show(history([slot(11), slot(12, SEEN)], { sum: SEEN }));
    expect([bars, screen.queryByRole('img')]).toEqual([[], null]);
    screen.getByText('Last 24 hours: $9.60 · 1 h of node time');
  });

  it('says that nothing was spent', async () => {
    await show(history([slot(11), slot(12)]));
    screen.getByText('Nothing spent in this period.');
    expect(screen.queryByRole('table', { hidden: true })).toBeNull();
  });

  it('shows how a budget came to be used, with its cap', async () => {
    const { past, curves } = await show(history([]));
    const choice = screen.getByRole('button', { name: 'Budget weekly' });
    expect(choice.getAttribute('aria-pressed')).toBe('false');
    fireEvent.click(choice);
    await past.answer(course({ unwatched: 3, runs_out_at: NOON + 3600 }));
    expect(screen.getByRole('button', { name: 'Budget weekly', pressed: true })).toBe(choice);
    expect(curves[0]).toMatchObject({ cap: 10, watched: [0, 1.5, 3], used: [0, 3, 6] });
    screen.getByText('cap');
    screen.getByText('at the current rate');
    screen.getByText('Price unknown, counted at the highest price: v2-8');
    expect(screen.getByRole('img').getAttribute('aria-label')).toMatch(/\$6\.00 of \$10\.00 used/);
    screen.getByRole('columnheader', { name: 'At most', hidden: true });
  });

  it('offers no budget that cannot be read', async () => {
    const broken = budget({ name: 'lost', amount: null, unit: null, error: 'cannot be read' });
    await show(history([]), [broken]);
    expect(screen.queryByRole('button', { name: /lost/ })).toBeNull();
  });

  it('says what could not be asked', async () => {
    const past = new Past();
    past.money.tell();
    const plot = (): Promise<never> => new Promise(() => undefined);
    const plots = { bars: plot, curve: plot };
    render(
      <SpendHistory history={past.model} budgets={[]} isEmulated={false} {...{ plots, trans }} />
    );
    await past.fail();
    screen.getByText(/^Couldn't load/);
  });

  it('shows foreign words as text', async () => {
    const slots = [slot(12, UNPRICED)];
    await show(history(slots, { unpriced: [HOSTILE] }), [budget({ name: HOSTILE })]);
    screen.getByText(`plus unknown prices: ${HOSTILE}`);
    screen.getByRole('button', { name: `Budget ${HOSTILE}` });
    expect(document.querySelector('img')).toBeNull();
  });
});

describe('the numbers of a chart', () => {
  it('have a name for each day', () => {
    const { labels } = barsOf(history([slot(0, { day: '2026-03-01' })], { by: 'day' }));
    expect(labels[23]).toMatch(/\b1\b/);
  });

  const later = NOON + 3600;
  it.each([
    ['the end of the window', { window_end: later + 9, runs_out_at: null }, later + 9, null],
    [
      'the end, and where it runs out before',
      { window_end: later + 9, runs_out_at: later },
      later + 9,
      later
    ],
    ['now, where there is no end', { window_end: null, runs_out_at: null }, NOON, null],
    ['where it runs out', { window_end: null, runs_out_at: later }, later, later],
    ['now, where it runs out in years', { window_end: null, runs_out_at: NOON + 1e9 }, NOON, null],
    ['now, where it is used up', { window_end: null, runs_out_at: NOON }, NOON, null]
  ])('of a budget go on to %s', (_, rest, ends_at, runs_out_at) => {
    const curve = curveOf(course(rest) as Parameters<typeof curveOf>[0]);
    expect(curve).toMatchObject({ ends_at, runs_out_at });
  });
});
