/** What money, time and quota mean in words; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { formatUsd } from '../format';
import { IGrantRow } from './grantrecords';
import { clockTime, formatCountdown } from './moments';
import { IActivitySource, IBrake, IBudget, IQuotaLimit, ISpend, ISum, ISweepItem } from './records';

/** A span as people say it: `42 s`, `8 min`, `1 h 20 min`, `3 d`. */
export function formatSpan(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) {
    return trans.__('%1 s', whole);
  }
  const minutes = Math.round(whole / 60);
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  if (minutes >= 48 * 60) {
    return trans.__('%1 d', Math.round(minutes / (24 * 60)));
  }
  const rest = minutes % 60;
  const hours = Math.floor(minutes / 60);
  return rest ? trans.__('%1 h %2 min', hours, rest) : trans.__('%1 h', hours);
}

/** A moment in the browser's own format; a clock time where it is near. */
export function formatMoment(seconds: number, now_s: number): string {
  const near = Math.abs(seconds - now_s) < 20 * 3600;
  const date = new Date(seconds * 1000);
  return near
    ? clockTime(seconds)
    : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}

/** A foreign error as text: a sentence, or a record that has one. */
export function textOf(error: unknown): string {
  if (typeof error === 'string') {
    return error;
  }
  const { message, text } = (error ?? {}) as { message?: unknown; text?: unknown };
  const words = message ?? text;
  return typeof words === 'string' ? words : '';
}

/** A record of values, one a line; what is null says nothing. */
export function formatDetail(detail: { readonly [name: string]: unknown }): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('\n');
}

/** Whether something runs up costs now, be its price known or not. */
export function isBilled({ usd_per_hour }: ISpend): boolean {
  return usd_per_hour === null || usd_per_hour > 0;
}

/** Why budgets allow nothing. */
export function faultsOf({ budgets }: ISpend): readonly string[] {
  return budgets.flatMap(({ error }) => (error ? [error] : []));
}

/** What is known of the rate where some price is not. */
export function knownRate({ nodes }: ISpend): number {
  return nodes
    .filter(({ is_open }) => is_open)
    .reduce((sum, { usd_per_hour }) => sum + (usd_per_hour ?? 0), 0);
}

/** What is paid per hour; a lower bound where a price is unknown. */
export function formatRate(spend: ISpend, trans: TranslationBundle): string {
  if (spend.usd_per_hour !== null) {
    return trans.__('%1 per hour', formatUsd(spend.usd_per_hour));
  }
  const known = knownRate(spend);
  return known > 0 ? trans.__('at least %1 per hour', formatUsd(known)) : trans.__('price unknown');
}

export function formatSum({ usd, known_usd, ready_s }: ISum, trans: TranslationBundle): string {
  const money = usd === null ? atLeast(known_usd ?? 0, trans) : formatUsd(usd);
  return ready_s > 0 ? `${money} · ${formatSpan(ready_s, trans)}` : money;
}

function atLeast(usd: number, trans: TranslationBundle): string {
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
  const words: { readonly [period: string]: string } = {
    day: trans.__('a day'),
    week: trans.__('a week'),
    month: trans.__('a month'),
    total: trans.__('in total')
  };
  return words[period ?? ''] ?? period ?? '';
}

/** Why a node will end, in a word. */
export function endName(why: IBrake['ends_why'], trans: TranslationBundle): string {
  const words: { readonly [why: string]: string } = {
    idle: trans.__('idle'),
    session: trans.__('longest session'),
    deadline: trans.__('deadline'),
    budget: trans.__('budget used up')
  };
  return words[why ?? ''] ?? why ?? '';
}

/** When and how a node ends: `Stops in 42 min: idle`. */
export function formatEnd(brake: IBrake, now_s: number, trans: TranslationBundle): string {
  if (brake.ends_at === null) {
    return trans.__('No end is set');
  }
  return joined(
    endsIn(brake, formatSpan(brake.ends_at - now_s, trans), trans),
    endName(brake.ends_why, trans)
  );
}

/**
 * The same where it is soon, to the second, and in more words: `Stops in 4:12: idle for 55 min`.
 *
 * @param asked_s when the brakes said so, by the server's clock
 */
export function formatCountedEnd(
  brake: IBrake,
  now_s: number,
  asked_s: number,
  trans: TranslationBundle
): string {
  const left_s = (brake.ends_at ?? now_s) - now_s;
  const nowWords = brake.action === 'stop' ? trans.__('Stops now') : trans.__('Is deleted now');
  const what = left_s > 0 ? endsIn(brake, formatCountdown(left_s), trans) : nowWords;
  return joined(what, formatWhy(brake, now_s - asked_s, trans));
}

function endsIn({ action }: IBrake, span: string, trans: TranslationBundle): string {
  return action === 'stop' ? trans.__('Stops in %1', span) : trans.__('Is deleted in %1', span);
}

function joined(what: string, why: string): string {
  return why ? `${what}: ${why}` : what;
}

/** Why a node will end, with the time that has to do with it. */
function formatWhy(brake: IBrake, since_s: number, trans: TranslationBundle): string {
  const { ends_why, session_s, idle_s } = brake;
  if (ends_why === 'idle' && idle_s !== null) {
    return trans.__('idle for %1', formatSpan(idle_s + since_s, trans));
  }
  return ends_why === 'session' && session_s !== null
    ? trans.__('longest session of %1', formatSpan(session_s, trans))
    : endName(ends_why, trans);
}

/** A keep holds off the idle rule and the end of a session, and nothing else. */
export function canBeKept({ ends_why }: IBrake): boolean {
  return ends_why === 'idle' || ends_why === 'session';
}

/** How a node was kept by the user, or an empty string. */
export function formatKept(brake: IBrake, now_s: number, trans: TranslationBundle): string {
  if (brake.kept_while_busy) {
    return trans.__('Kept until the running cell ends');
  }
  return brake.kept_until !== null && brake.kept_until > now_s
    ? trans.__('Kept until %1', formatMoment(Math.round(brake.kept_until / 60) * 60, now_s))
    : '';
}

export function sourceName(source: IActivitySource['source'], trans: TranslationBundle): string {
  const words: { readonly [source: string]: string } = {
    execution: trans.__('Running cells'),
    accelerator: trans.__('Use of the chips'),
    human: trans.__('Your own acts'),
    output: trans.__('Output'),
    connection: trans.__('Open notebooks and clients'),
    cpu: trans.__('CPU time')
  };
  return words[source] ?? source;
}

/** @param others all sources of the node: CPU time stands in for a use of the chips that is unknown */
export function sourceState(
  { state, age_s }: IActivitySource,
  others: readonly IActivitySource[],
  trans: TranslationBundle
): string {
  if (state === 'unknown') {
    const hasStandIn = others.some(one => one.source === 'cpu' && one.state !== 'unknown');
    return hasStandIn
      ? trans.__('unknown (output and CPU time count instead)')
      : trans.__('unknown (treated as busy)');
  }
  if (state === 'active') {
    return trans.__('now');
  }
  return age_s === null ? trans.__('none') : trans.__('%1 ago', formatSpan(age_s, trans));
}

/** The node that ends first, of those whose end is known. */
export function nearestEnd(brakes: readonly IBrake[]): IBrake | undefined {
  return [...brakes]
    .filter(({ ends_at }) => ends_at !== null)
    .sort((left, right) => (left.ends_at ?? 0) - (right.ends_at ?? 0))[0];
}

/** A name that is not taken: the base, or the base with a number. */
export function freeName(base: string, taken: readonly string[]): string {
  const names = [base, ...taken.map((_, index) => `${base}-${index + 2}`)];
  return names.find(name => !taken.includes(name)) ?? base;
}

export function formatGrantRow(row: IGrantRow, trans: TranslationBundle): string {
  const chips = trans._n('%1 chip', '%1 chips', row.chips);
  const kind = row.spot ? trans.__('spot') : trans.__('on demand');
  const what = row.device ? `${row.generation} (${row.device})` : row.generation;
  return `${chips} ${what} · ${kind} · ${row.zone}`;
}

/** Limits that something counts against, and those that leave room where the user looks for a node. */
export function limitsThatMatter(
  limits: readonly IQuotaLimit[],
  chosenZone: string
): readonly IQuotaLimit[] {
  const hasRoom = (limit: IQuotaLimit): boolean =>
    (limit.limit ?? 0) > 0 && isIn(limit, chosenZone);
  return limits.filter(limit => isUsed(limit) || hasRoom(limit));
}

export function isUsed({ used, users }: IQuotaLimit): boolean {
  return used > 0 || users.length > 0;
}

function isIn({ scope, location }: IQuotaLimit, zone: string): boolean {
  return scope === 'region' ? zone.startsWith(`${location}-`) : zone === location;
}

/** What the marked items cost together now, for the question before they are deleted. */
export function formatSweepCost(items: readonly ISweepItem[], trans: TranslationBundle): string {
  const billed = items.filter(({ is_billed }) => is_billed);
  if (billed.length === 0) {
    return trans.__('None of it is billed by the hour now.');
  }
  const usd = billed.reduce((sum, { usd_per_hour }) => sum + (usd_per_hour ?? 0), 0);
  const isPartial = billed.some(({ usd_per_hour }) => usd_per_hour === null);
  return isPartial
    ? trans.__('It costs at least %1 per hour now; some prices are unknown.', formatUsd(usd))
    : trans.__('It costs %1 per hour now.', formatUsd(usd));
}

/** What a try of a search ended with. */
export function outcomeName(outcome: string, trans: TranslationBundle): string {
  const words: { readonly [outcome: string]: string } = {
    trying: trans.__('trying'),
    quota: trans.__('quota used up'),
    stockout: trans.__('no capacity'),
    not_allowed: trans.__('not allowed for this project'),
    address: trans.__('no external addresses left'),
    other: trans.__('refused'),
    won: trans.__('created'),
    waiting: trans.__('waits its turn')
  };
  return words[outcome] ?? outcome;
}

export function phaseName(phase: string, trans: TranslationBundle): string {
  const words: { readonly [phase: string]: string } = {
    trying: trans.__('searching'),
    found: trans.__('found'),
    failed: trans.__('nothing found'),
    cancelled: trans.__('cancelled')
  };
  return words[phase] ?? phase;
}
