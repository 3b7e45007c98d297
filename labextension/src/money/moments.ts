/** Times of day as people read and type them; pure apart from the page's language. */

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The end of a usual working day, offered first. */
const EVENING_H = 18;
/** How far ahead the end of the working day is still a useful suggestion. */
const MAX_AHEAD_MS = 12 * HOUR_MS;

let locale: string | undefined;

/**
 * Set the page's language, such as `zh_CN`; the browser's variant of the same language, such as `en-GB`, takes
 * precedence.
 */
export function setLanguage(code: string | undefined): void {
  if (!code) {
    // JupyterLab 4.2 does not know its language yet when plugins start
    locale = undefined;
    return;
  }
  const [language] = code.split(/[_-]/);
  const own = navigator.languages.find(each => each.split('-')[0] === language);
  locale = own ?? code.replace('_', '-');
}

/** The locale in which dates and times are formatted. */
export function dateLocale(): string | undefined {
  return locale;
}

/** The time of day, in the page's language. */
export function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString(locale, { timeStyle: 'short' });
}

/** The time left, to the second: `4:12`, `1:04:12`. */
export function formatCountdown(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const parts = [Math.floor(whole / 60) % 60, whole % 60];
  const hours = Math.floor(whole / 3600);
  const [first, ...rest] = hours > 0 ? [hours, ...parts] : parts;
  return [first, ...rest.map(part => String(part).padStart(2, '0'))].join(':');
}

/** A time to suggest: 18:00, or the next full hour that is at least an hour ahead. */
export function suggestTime(now: Date): string {
  const evening = new Date(now);
  evening.setHours(EVENING_H, 0, 0, 0);
  const left_ms = evening.getTime() - now.getTime();
  if (left_ms >= HOUR_MS && left_ms <= MAX_AHEAD_MS) {
    return asTime(evening);
  }
  const later = new Date(now.getTime() + 2 * HOUR_MS - 1);
  later.setMinutes(0, 0, 0);
  return asTime(later);
}

/** The next moment at which a clock shows a time such as `18:00`; null for anything else. */
export function nextMoment(time: string, now: Date): Date | null {
  const found = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(time);
  if (!found) {
    return null;
  }
  const moment = new Date(now);
  moment.setHours(Number(found[1]), Number(found[2]), 0, 0);
  if (moment.getTime() <= now.getTime()) {
    moment.setDate(moment.getDate() + 1);
  }
  return moment;
}

/**
 * Convert a time by the browser's clock to seconds by the server's clock.
 *
 *  Rounded to minutes, as typed, because the two clocks are compared only to the second.
 */
export function onServer(moment: Date, now_ms: number, server_s: number): number {
  const ahead_ms = server_s * 1000 - now_ms;
  return Math.round((moment.getTime() + ahead_ms) / MINUTE_MS) * 60;
}

function asTime(moment: Date): string {
  const pad = (part: number): string => String(part).padStart(2, '0');
  return `${pad(moment.getHours())}:${pad(moment.getMinutes())}`;
}

/** A time in the page's language: with the date unless it is today, and with the year unless it is the current one. */
export function formatMoment(seconds: number, now_s: number): string {
  const date = new Date(seconds * 1000);
  const now = new Date(now_s * 1000);
  return date.toDateString() === now.toDateString()
    ? clockTime(seconds)
    : date.toLocaleString(locale, {
        year: date.getFullYear() === now.getFullYear() ? undefined : 'numeric',
        month: 'short',
        day: 'numeric',
        hour: 'numeric',
        minute: '2-digit'
      });
}
