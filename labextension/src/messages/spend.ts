/** Spending: the section, budgets, history, the status bar, and the audit log. */

import { TranslationBundle } from '@jupyterlab/translation';
import {
  IBudget,
  IBudgetBurnDown,
  INodeAutostop,
  ISpend,
  ISpendHistory,
  ISpendOfSlot,
  ISpendOfTime
} from '../api.generated';
import { formatUsd } from '../format';
import { dateLocale, formatMoment } from '../money/moments';
import { isUpTo, slotName } from '../spend/historydata';
import { HistoryChoice } from '../spend/historymodel';
import { isCovered, IUsedBefore, knownRate } from '../spend/rates';
import { coveredByGrant, formatDuration } from './units';

// Section

export function title(trans: TranslationBundle): string {
  return trans.__('Spend');
}

export function blocked(trans: TranslationBundle): string {
  return trans.__("You can't create or start billable resources.");
}

export function now(trans: TranslationBundle): string {
  return trans.__('Now');
}

export function today(trans: TranslationBundle): string {
  return trans.__('Today');
}

/** Today's spending, next to the title; the present hourly cost is shown at the top of the panel. */
export function spentToday(amount: string, trans: TranslationBundle): string {
  return trans.__('%1 today', amount);
}

export function thisWeek(trans: TranslationBundle): string {
  return trans.__('This week');
}

export function total(trans: TranslationBundle): string {
  return trans.__('Total');
}

/** A note about two clocks: the emulated cloud bills by its own clock, but idle time is real time. */
export function emulatedTime(trans: TranslationBundle): string {
  return trans.__(
    'Costs, and the times in this section, follow the emulated clock, which runs at 10 × real time by default. Auto-stop uses real time.'
  );
}

export function unpriced(types: string, trans: TranslationBundle): string {
  return trans.__('Price of %1 unknown: not included in the totals.', types);
}

export function maybeMore(trans: TranslationBundle): string {
  return trans.__(
    'The totals may be incomplete: some time was not monitored, or a zone did not respond.'
  );
}

export function spendingUnknown(trans: TranslationBundle): string {
  return trans.__('spending unknown');
}

// Budgets

export function budgets(trans: TranslationBundle): string {
  return trans.__('Budgets');
}

export function setBudgetEllipsis(trans: TranslationBundle): string {
  return trans.__('Set a budget…');
}

export function budgetsAreCorrect(trans: TranslationBundle): string {
  return trans.__('Confirm budgets');
}

export function removeBudget(name: string, trans: TranslationBundle): string {
  return trans.__('Remove the budget %1', name);
}

export function budget(name: string, trans: TranslationBundle): string {
  return trans.__('Budget %1', name);
}

export function usedUp(trans: TranslationBundle): string {
  return trans.__('used up');
}

/** The used share of a budget that is not used up, rounded down. */
export function usedShare(fraction: number, trans: TranslationBundle): string {
  return trans.__('%1 % used', Math.floor(100 * fraction));
}

// Form of a budget

export function setBudget(trans: TranslationBundle): string {
  return trans.__('Set a budget');
}

export function amount(trans: TranslationBundle): string {
  return trans.__('Amount');
}

/** The amount that would already count towards a budget before it is set. */
export function usedSoFar(
  { least, most }: IUsedBefore,
  unit: IBudget['unit'],
  trans: TranslationBundle
): string {
  return isExact(least, most)
    ? trans.__('Used so far: %1', formatAmount(least, unit, trans))
    : trans.__('Used so far: up to %1', formatAmount(most, unit, trans));
}

function isExact(least: number, most: number): boolean {
  return most - least <= 0.01 * most;
}

/** A warning that a budget would be used up as soon as it is set. */
export function usedUpAtOnce(
  { least }: IUsedBefore,
  amount: number,
  isEnding: boolean,
  trans: TranslationBundle
): string {
  const head =
    least >= amount
      ? trans.__('You have already used this amount.')
      : trans.__('This amount may already be used.');
  return isEnding
    ? trans.__(
        '%1 These nodes will be stopped or deleted now, and their variables will be lost:',
        head
      )
    : trans.__("%1 You can't create nodes until the budget resets.", head);
}

export function endThemNow(trans: TranslationBundle): string {
  return trans.__('Stop or delete these nodes now');
}

export function unit(trans: TranslationBundle): string {
  return trans.__('Unit');
}

export function usDollars(trans: TranslationBundle): string {
  return trans.__('US dollars');
}

export function nodeHours(trans: TranslationBundle): string {
  return trans.__('node-hours');
}

export function atTheCap(trans: TranslationBundle): string {
  return trans.__('At the cap');
}

export function stopBilled(trans: TranslationBundle): string {
  return trans.__('stop billed nodes, except those under a grant');
}

export function stopAll(trans: TranslationBundle): string {
  return trans.__('stop all nodes');
}

export function onlyWarn(trans: TranslationBundle): string {
  return trans.__('only warn');
}

export function setThisBudget(trans: TranslationBundle): string {
  return trans.__('Set budget');
}

export function period(trans: TranslationBundle): string {
  return trans.__('Period');
}

export function eachDay(trans: TranslationBundle): string {
  return trans.__('each day');
}

export function eachWeek(trans: TranslationBundle): string {
  return trans.__('each week');
}

export function eachMonth(trans: TranslationBundle): string {
  return trans.__('each month');
}

export function inTotal(trans: TranslationBundle): string {
  return trans.__('in total');
}

export function resetsOn(trans: TranslationBundle): string {
  return trans.__('Resets on');
}

export function resetsAt(trans: TranslationBundle): string {
  return trans.__('Resets at');
}

// History

export function from(isEmulated: boolean, trans: TranslationBundle): string {
  return isEmulated ? trans.__('From (emulated)') : trans.__('From');
}

export function day(isEmulated: boolean, trans: TranslationBundle): string {
  return isEmulated ? trans.__('Day (emulated)') : trans.__('Day');
}

export function cost(trans: TranslationBundle): string {
  return trans.__('Cost');
}

export function readyFor(trans: TranslationBundle): string {
  return trans.__('READY for');
}

export function nothingSpent(trans: TranslationBundle): string {
  return trans.__('Nothing spent in this period.');
}

export function until(isEmulated: boolean, trans: TranslationBundle): string {
  return isEmulated ? trans.__('Until (emulated)') : trans.__('Until');
}

export function used(trans: TranslationBundle): string {
  return trans.__('Used');
}

export function atMost(trans: TranslationBundle): string {
  return trans.__('At most');
}

export function nothingUsed(trans: TranslationBundle): string {
  return trans.__('Nothing used yet.');
}

/** The sum of a chart, which covers less time than the total above it. */
export function sumOfChart({ by, slots, sum }: ISpendHistory, trans: TranslationBundle): string {
  const amount = formatSpent(sum, trans);
  return by === 'hour'
    ? trans.__('Last %1 hours: %2', slots.length, amount)
    : trans.__('Last %1 days: %2', slots.length, amount);
}

export function updating(trans: TranslationBundle): string {
  return trans.__('updating…');
}

export function unmonitored(trans: TranslationBundle): string {
  return trans.__('estimated maximum for unmonitored time');
}

export function plusUnpriced(types: string, trans: TranslationBundle): string {
  return trans.__('plus unknown prices: %1', types);
}

export function usedLine(trans: TranslationBundle): string {
  return trans.__('used');
}

export function atCurrentRate(trans: TranslationBundle): string {
  return trans.__('at the current rate');
}

export function cap(trans: TranslationBundle): string {
  return trans.__('cap');
}

export function unpricedAsDearest(types: string, trans: TranslationBundle): string {
  return trans.__('Price unknown, counted at the highest price: %1', types);
}

// Status bar

/** When a node ends, as on its card: `my-node stops in 42 min`. */
export function nodeEndsIn(
  { node_id, action }: Pick<INodeAutostop, 'node_id' | 'action'>,
  span: string,
  trans: TranslationBundle
): string {
  return action === 'stop'
    ? trans.__('%1 stops in %2', node_id, span)
    : trans.__('%1 is deleted in %2', node_id, span);
}

export function disconnected(name: string, trans: TranslationBundle): string {
  return trans.__('%1 disconnected', name);
}

export function noActionFor(name: string, span: string, trans: TranslationBundle): string {
  return trans.__('%1: no user activity for %2', name, span);
}

export function tooltip(rate: string, trans: TranslationBundle): string {
  return trans.__('TPU: %1', rate);
}

export function outOfDate(trans: TranslationBundle): string {
  return trans.__('Out of date: the server is not responding.');
}

// Audit log

/** The name of an action in the audit log, which has stable words such as `budget_level`. */
export function actionName(action: string, trans: TranslationBundle): string {
  const names: Record<string, string> = {
    create: trans.__('Create'),
    start: trans.__('Start'),
    stop: trans.__('Stop'),
    delete: trans.__('Delete'),
    ended: trans.__('Ended'),
    queue: trans.__('Queue'),
    unqueue: trans.__('Remove from queue'),
    search: trans.__('Search'),
    cancel: trans.__('Cancel search'),
    preempted: trans.__('Pre-empted'),
    'recover-on': trans.__('Auto-recovery on'),
    'recover-wait': trans.__('Wait to recreate'),
    recreate: trans.__('Recreate'),
    recreated: trans.__('Recreated'),
    'recover-give-up': trans.__('Not recreated'),
    'recover-off': trans.__('Auto-recovery off'),
    brakes: trans.__('Auto-stop rules'),
    keep: trans.__('Keep running'),
    checkpoint_hook: trans.__('Checkpoint hook'),
    budget: trans.__('Budget'),
    budget_level: trans.__('Budget use'),
    grant: trans.__('Grant'),
    journal_damaged: trans.__('Journal damaged')
  };
  return names[action] ?? action;
}

export function activityLog(trans: TranslationBundle): string {
  return trans.__('Audit log');
}

export function noEntries(trans: TranslationBundle): string {
  return trans.__('No entries yet.');
}

export function failed(trans: TranslationBundle): string {
  return trans.__('failed');
}

export function details(trans: TranslationBundle): string {
  return trans.__('Details');
}

/** The cost per hour; a lower bound if a price is unknown. */
export function formatRate(spend: ISpend, trans: TranslationBundle): string {
  if (isCovered(spend)) {
    return coveredByGrant(trans);
  }
  if (spend.usd_per_hour !== null) {
    return trans.__('%1 per hour', formatUsd(spend.usd_per_hour));
  }
  const known = knownRate(spend);
  return known > 0 ? trans.__('at least %1 per hour', formatUsd(known)) : trans.__('price unknown');
}

export function formatMoney(
  { usd, known_usd }: Pick<ISpendOfTime, 'usd' | 'known_usd'>,
  trans: TranslationBundle
): string {
  return usd === null ? atLeast(known_usd ?? 0, trans) : formatUsd(usd);
}

/** How long nodes were READY; two nodes for an hour are two hours. */
export function nodeTime(ready_s: number, trans: TranslationBundle): string {
  return trans.__('%1 of node time', formatDuration(ready_s, trans));
}

export function atLeast(usd: number, trans: TranslationBundle): string {
  return usd > 0 ? trans.__('at least %1', formatUsd(usd)) : trans.__('cost unknown');
}

export function formatAmount(
  amount: number,
  unit: IBudget['unit'],
  trans: TranslationBundle
): string {
  return unit === 'usd' ? formatUsd(amount) : trans.__('%1 h', Number(amount.toFixed(1)));
}

export function periodName(period: IBudget['period'], trans: TranslationBundle): string {
  const names: { readonly [period: string]: string } = {
    day: trans.__('a day'),
    week: trans.__('a week'),
    month: trans.__('a month'),
    total: trans.__('in total')
  };
  return names[period ?? ''] ?? period ?? '';
}

/** An amount and the READY time of nodes, with their uncertainty. */
export function formatSpent(spent: ISpendOfSlot, trans: TranslationBundle): string {
  const text = formatCost(spent, trans);
  return spent.ready_s > 0 ? `${text} · ${nodeTime(spent.ready_s, trans)}` : text;
}

/** An amount with its uncertainty. */
export function formatCost(spent: ISpendOfSlot, trans: TranslationBundle): string {
  const text = formatMoney(spent, trans);
  return isUpTo(spent) ? trans.__('%1, up to %2', text, formatUsd(spent.up_to_usd)) : text;
}

export function historyName(choice: HistoryChoice, trans: TranslationBundle): string {
  if ('budget' in choice) {
    return trans.__('Budget %1', choice.budget);
  }
  return choice.by === 'hour' ? trans.__('%1 h', choice.last) : trans.__('%1 d', choice.last);
}

/** The title of a chart. */
export function historyTitle(choice: HistoryChoice, trans: TranslationBundle): string {
  if ('budget' in choice) {
    return trans.__('Usage of budget %1 over time', choice.budget);
  }
  return choice.by === 'hour'
    ? trans.__('Spending per hour, last %1 hours', choice.last)
    : trans.__('Spending per day, last %1 days', choice.last);
}

/** The chart of spending as text, for users who can't see it. */
export function historyDescription(history: ISpendHistory, trans: TranslationBundle): string {
  const sum = trans.__('Total %1.', formatSpent(history.sum, trans));
  const most = [...history.slots].sort((left, right) => right.known_usd - left.known_usd)[0];
  return most && most.known_usd > 0
    ? trans.__('%1 Highest: %2 at %3.', sum, formatUsd(most.known_usd), slotName(most, history))
    : sum;
}

/** The chart of a budget as text, for users who can't see it. */
export function burnDownDescription(
  { budget, points }: IBudgetBurnDown,
  trans: TranslationBundle
): string {
  const { amount, unit, used } = budget;
  const last = points[points.length - 1];
  if (amount === null || used === null || !last) {
    return trans.__('Usage unknown.');
  }
  const halfway = points.find(point => point.used >= last.used / 2) ?? last;
  return trans.__(
    '%1 of %2 used; half of that was used by %3.',
    formatAmount(used, unit, trans),
    formatAmount(amount, unit, trans),
    new Date(halfway.at * 1000).toLocaleString(dateLocale(), {
      dateStyle: 'medium',
      timeStyle: 'short'
    })
  );
}

export function weekdays(trans: TranslationBundle): [string, string][] {
  return [
    ['monday', trans.__('Monday')],
    ['tuesday', trans.__('Tuesday')],
    ['wednesday', trans.__('Wednesday')],
    ['thursday', trans.__('Thursday')],
    ['friday', trans.__('Friday')],
    ['saturday', trans.__('Saturday')],
    ['sunday', trans.__('Sunday')]
  ];
}

export function budgetUse(budget: IBudget, trans: TranslationBundle): string {
  if (budget.amount === null) {
    return '';
  }
  const amount = formatAmount(budget.amount, budget.unit, trans);
  const period = periodName(budget.period, trans);
  if (budget.used === null) {
    return trans.__('%1 %2: usage unknown', amount, period);
  }
  const used = formatAmount(budget.used, budget.unit, trans);
  return budget.unwatched
    ? trans.__('Up to %1 of %2 %3: some of the time was not monitored', used, amount, period)
    : trans.__('%1 of %2 %3', used, amount, period);
}

/** What happens at the cap. A grant covers dollars, not node-hours: a budget of node-hours stops its nodes too. */
function atTheCapText({ action, unit }: IBudget, trans: TranslationBundle): string {
  if (action === 'warn') {
    return trans.__('only warns');
  }
  return action === 'stop' && unit === 'usd'
    ? trans.__(
        'stops billed nodes at the cap, and deletes those that cannot be stopped, except those under a grant'
      )
    : trans.__('stops all nodes at the cap, and deletes those that cannot be stopped');
}

/** What happens at the cap, when it is reached, and when the budget resets. */
export function budgetTerms(budget: IBudget, now_s: number, trans: TranslationBundle): string[] {
  const { action, level, runs_out_at, window_end } = budget;
  return [
    action === null ? '' : atTheCapText(budget, trans),
    level !== '100' && runs_out_at !== null && runs_out_at > now_s
      ? trans.__('runs out in %1', formatDuration(runs_out_at - now_s, trans))
      : '',
    window_end === null ? '' : trans.__('resets %1', formatMoment(window_end, now_s))
  ].filter(Boolean);
}

export function shortRate(spend: ISpend, trans: TranslationBundle): string {
  if (isCovered(spend)) {
    return trans.__('TPU: covered by a grant');
  }
  if (spend.usd_per_hour !== null) {
    return trans.__('TPU %1/h', formatUsd(spend.usd_per_hour));
  }
  const known = knownRate(spend);
  return known > 0 ? trans.__('TPU ≥ %1/h', formatUsd(known)) : trans.__('TPU price unknown');
}
