/** What money, time and quota mean in words; pure. */

import { clockTime } from './moments';
import { IBrake, IQuotaLimit, ISpend } from './records';

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

/** A keep holds off the idle rule and the end of a session, and nothing else. */
export function canBeKept({ ends_why }: IBrake): boolean {
  return ends_why === 'idle' || ends_why === 'session';
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
