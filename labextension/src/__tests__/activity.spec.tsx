import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { Signal } from '@lumino/signaling';
import { IActivityInterval, IActivitySource, IAutostopHistory } from '../api.generated';
import { activityData, IActivityData } from '../autostop/activitydata';
import { chipUseSummary } from '../autostop/chipuse';
import { ICreateActions } from '../create/draft';
import { activityDescription } from '../messages/autostop';
import { IPlots, moneyRenderers } from '../money/renderers';
import { IMoneyActions } from '../money/section';
import { IMoneyModel } from '../money/tokens';
import { TpuRequestError } from '../request';
import { node, STOCKOUT, trans } from './fixtures';
import { answered, autostop, NODE, unanswered } from './moneyfixtures';

afterEach(cleanup);

const NOW = 10_000;
const HOSTILE = '<img src=x onerror="alert(1)">';

function stretch(
  from_s: number,
  to_s: number,
  rest: Partial<IActivityInterval> = {}
): IActivityInterval {
  const times = { starts_at: NOW - from_s, ends_at: NOW - to_s };
  return {
    verdict: 'idle',
    sources: [],
    detail: '',
    quiet_since: times.starts_at,
    ...times,
    ...rest
  };
}

const BUSY: Partial<IActivityInterval> = {
  verdict: 'busy',
  sources: ['execution'],
  quiet_since: NOW
};

function past(
  stretches: readonly IActivityInterval[],
  rest: Partial<IAutostopHistory> = {}
): IAutostopHistory {
  return { now: NOW, idle_after_s: 3600, why_unknown: null, stretches, ...rest };
}

interface IShown {
  asked: number;
  drawn: IActivityData[];
  news: () => Promise<void>;
}

/** The time left of a node, with what counts as use opened. */
async function open(answer: () => Promise<IAutostopHistory>, isWatched = true): Promise<IShown> {
  const stateChanged = new Signal<object, void>({});
  const shown: IShown = { asked: 0, drawn: [], news: () => Promise.resolve() };
  const parts = {
    autostops: answered({ nodes: [autostop()] }),
    recovery: answered({ choices: [] })
  };
  const autostopHistory = async (): Promise<object> => {
    shown.asked += 1;
    return { data: await answer(), server_s: NOW, received_ms: Date.now() };
  };
  const model = { parts, cuts: new Map(), stateChanged, isWatched, client: { autostopHistory } };
  const plot = {
    show: (what: IActivityData) => void shown.drawn.push(what),
    dispose: () => undefined
  };
  const plots = { idle: () => Promise.resolve(plot) } as unknown as IPlots;
  const [actions, createActions] = [{} as IMoneyActions, {} as ICreateActions];
  const renderers = moneyRenderers(
    model as unknown as IMoneyModel,
    actions,
    createActions,
    trans,
    plots
  );
  render(renderers.autostopRow({ ...node('my-node'), name: NODE }));
  expect(shown.asked).toBe(0);
  const details = screen.getByText('Activity').closest('details') as HTMLDetailsElement;
  details.open = true;
  await act(() => Promise.resolve(void fireEvent(details, new Event('toggle'))));
  shown.news = () =>
    act(async () => {
      model.parts = { ...parts, autostops: answered({ nodes: [autostop()] }) };
      stateChanged.emit();
      await Promise.resolve();
    });
  return shown;
}

const always = (data: IAutostopHistory) => (): Promise<IAutostopHistory> => Promise.resolve(data);

describe('the last hour of a node', () => {
  it('is asked for when it is opened, and with each news of auto-stop', async () => {
    const shown = await open(always(past([stretch(600, 0)])));
    expect(shown.asked).toBe(1);
    await shown.news();
    expect(shown.asked).toBe(2);
  });

  it('is not asked for while nobody looks at the panel', async () => {
    const shown = await open(always(past([])), false);
    await shown.news();
    expect(shown.asked).toBe(0);
  });

  it('is a chart, the same in words, and a table with the reasons', async () => {
    const busy = stretch(1200, 600, { ...BUSY, detail: 'a cell of train.ipynb runs' });
    const hidden = stretch(300, 0, { verdict: 'unknown', sources: ['accelerator'] });
    const shown = await open(always(past([busy, stretch(600, 300), hidden])));
    expect(shown.drawn).toHaveLength(1);
    expect(screen.getByRole('img').getAttribute('aria-label')).toBe(
      'Activity of my-node in the last hour: in use for 10 min, idle for 5 min, ' +
        'unknown (treated as busy) for 5 min; no data for the remaining time.'
    );
    screen.getByText('in use: a cell of train.ipynb runs');
    screen.getByText('unknown (treated as busy): Chip use');
    screen.getByText('idle time, as a percentage of the idle timeout');
  });

  it('says why nothing is known', async () => {
    await open(always(past([], { why_unknown: 'the agent on the node is older' })));
    screen.getByText(/^Activity in the last hour unknown: the agent on the node is older\.$/);
    expect(screen.queryByRole('img')).toBeNull();
  });

  it('says what could not be asked', async () => {
    await open(() => Promise.reject(new TpuRequestError(STOCKOUT)));
    screen.getByText(/^Couldn't load/);
  });

  it('shows foreign words as text', async () => {
    await open(always(past([stretch(60, 0, { ...BUSY, detail: HOSTILE })])));
    screen.getByText(`in use: ${HOSTILE}`);
    expect(document.querySelector('img')).toBeNull();
  });
});

describe('the level of the idle time', () => {
  it('rises while a node is idle, and is nothing while it is in use', () => {
    const { at, level } = activityData(past([stretch(1800, 900, BUSY), stretch(900, 0)]));
    expect(at).toEqual([NOW - 1800, NOW - 900, NOW - 900, NOW]);
    expect(level).toEqual([0, 0, 0, 25]);
  });

  it('has a gap where nobody looked', () => {
    const { level } = activityData(
      past([stretch(1800, 900), stretch(600, 0, { quiet_since: NOW - 1800 })])
    );
    expect(level).toEqual([0, 25, null, expect.closeTo(33.3, 1), 50]);
  });

  it('is not known where nobody can tell, or where nothing ends the node', () => {
    const hidden = stretch(60, 0, { verdict: 'unknown' });
    expect(activityData(past([hidden])).level).toEqual([null, null]);
    expect(activityData(past([stretch(60, 0, { quiet_since: null })])).level).toEqual([null, null]);
    expect(activityData(past([stretch(60, 0)], { idle_after_s: null }))).toMatchObject({
      hasRule: false,
      level: [null, null]
    });
  });

  it('is told of only where somebody has looked', () => {
    expect(activityDescription(past([]), trans)).toBe('Not enough data yet.');
  });
});

describe('what is said of the chips while nobody looks at them', () => {
  const CHIPS = { source: 'accelerator', age_s: null, detail: '' } as const;

  function said(state: IActivitySource['state'], part = 'fresh'): string | undefined {
    const nodes = [autostop({ sources: [{ ...CHIPS, state }] })];
    const autostops = part === 'fresh' ? answered({ nodes }) : unanswered(STOCKOUT);
    const stateChanged = new Signal<object, void>({});
    const model = { parts: { autostops }, cuts: new Map(), stateChanged } as unknown as IMoneyModel;
    return chipUseSummary(model, trans).of({ ...node('my-node'), name: NODE });
  }

  it.each([
    ['active', 'in use'],
    ['quiet', 'idle'],
    ['unknown', 'unknown']
  ] as const)('is in a word what auto-stop knows: %s', (state, word) => {
    expect(said(state)).toBe(word);
  });

  it('is nothing where auto-stop is not answered', () => {
    expect(said('active', 'old')).toBeUndefined();
  });
});
