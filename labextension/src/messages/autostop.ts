/** Auto-stop: when a node stops or is deleted, how to keep it running, and its activity. */

import { TranslationBundle } from '@jupyterlab/translation';
import {
  IActivityInterval,
  IActivitySource,
  IAutostopHistory,
  INodeAutostop
} from '../api.generated';
import { HOUR_S } from '../autostop/activitydata';
import { formatCountdown, formatMoment } from '../money/moments';
import { formatDuration } from './units';

// In the row of a node

export function rowLabel(name: string, trans: TranslationBundle): string {
  return trans.__('Auto-stop for %1', name);
}

export function endsSoon(name: string, trans: TranslationBundle): string {
  return trans.__('Auto-stop for %1 is due soon.', name);
}

export function needsServer(reason: string, trans: TranslationBundle): string {
  return trans.__("Auto-stop needs this Jupyter server: the node can't stop itself. %1", reason);
}

export function activityDetails(trans: TranslationBundle): string {
  return trans.__('Activity');
}

export function guard(trans: TranslationBundle): string {
  return trans.__('Auto-stop on the node');
}

export function changeOf(name: string, trans: TranslationBundle): string {
  return trans.__('Change auto-stop for %1', name);
}

export function change(trans: TranslationBundle): string {
  return trans.__('Change…');
}

// Above the notebook

export function endsSoonBecause(name: string, why: string, trans: TranslationBundle): string {
  return trans.__('Auto-stop for %1, where this notebook runs, is due soon: %2', name, why);
}

export function isBilled(name: string, trans: TranslationBundle): string {
  return trans.__('%1 is billed', name);
}

export function warningLabel(name: string, trans: TranslationBundle): string {
  return trans.__('Auto-stop warning for %1', name);
}

// Keep running

export function keepOneHourOf(name: string, trans: TranslationBundle): string {
  return trans.__('Keep %1 running 1 h', name);
}

export function keepOneHour(trans: TranslationBundle): string {
  return trans.__('Keep running 1 h');
}

export function plusOneHour(trans: TranslationBundle): string {
  return trans.__('+1 h');
}

export function keepUntilTimeOf(name: string, trans: TranslationBundle): string {
  return trans.__('Keep %1 running until a set time', name);
}

export function untilEllipsis(trans: TranslationBundle): string {
  return trans.__('Until…');
}

export function keepUntilCellEndsOf(name: string, trans: TranslationBundle): string {
  return trans.__('Keep %1 running until this cell ends', name);
}

export function untilCellEnds(trans: TranslationBundle): string {
  return trans.__('Until this cell ends');
}

export function cancelKeepOf(name: string, trans: TranslationBundle): string {
  return trans.__('Cancel “keep running” for %1', name);
}

export function cancelKeep(trans: TranslationBundle): string {
  return trans.__('Cancel “keep running”');
}

export function keepUntilOf(name: string, trans: TranslationBundle): string {
  return trans.__('Keep %1 running until', name);
}

export function keepUntil(trans: TranslationBundle): string {
  return trans.__('Keep running until');
}

export function inTime(span: string, trans: TranslationBundle): string {
  return trans.__('in %1', span);
}

export function enterTime(trans: TranslationBundle): string {
  return trans.__('Enter a time.');
}

export function keepRunningOf(name: string, trans: TranslationBundle): string {
  return trans.__('Keep %1 running', name);
}

export function keepRunning(trans: TranslationBundle): string {
  return trans.__('Keep running');
}

// Settings

export function settingsOf(name: string, trans: TranslationBundle): string {
  return trans.__('Auto-stop settings for %1', name);
}

export function idleTimeout(trans: TranslationBundle): string {
  return trans.__('Idle timeout (minutes)');
}

export function noIdleTimeout(trans: TranslationBundle): string {
  return trans.__('Leave empty for no idle timeout');
}

export function runningCellIdleAfter(trans: TranslationBundle): string {
  return trans.__('Treat a running cell as idle after (hours)');
}

export function runningCellNeverIdle(trans: TranslationBundle): string {
  return trans.__(
    'Only if there is no output, chip use or connected client. Leave empty to always treat it as busy.'
  );
}

export function maximumSession(trans: TranslationBundle): string {
  return trans.__('Maximum session length (hours)');
}

export function noMaximumSession(trans: TranslationBundle): string {
  return trans.__('Leave empty for no limit');
}

export function then(trans: TranslationBundle): string {
  return trans.__('Auto-stop action');
}

export function deleteNode(trans: TranslationBundle): string {
  return trans.__('Delete the node');
}

export function stopNode(trans: TranslationBundle): string {
  return trans.__('Stop the node and keep its disk');
}

export function save(trans: TranslationBundle): string {
  return trans.__('Save');
}

// Activity of the last hour

export function lastHourOf(name: string, trans: TranslationBundle): string {
  return trans.__('Activity of %1 in the last hour', name);
}

export function lastHourUnknown(reason: string, trans: TranslationBundle): string {
  return trans.__('Activity in the last hour unknown: %1.', reason);
}

export function from(trans: TranslationBundle): string {
  return trans.__('From');
}

export function duration(trans: TranslationBundle): string {
  return trans.__('Duration');
}

export function activity(trans: TranslationBundle): string {
  return trans.__('Activity');
}

export function noData(trans: TranslationBundle): string {
  return trans.__('No data yet.');
}

export function shareOfIdleTimeout(trans: TranslationBundle): string {
  return trans.__('idle time, as a percentage of the idle timeout');
}

// When and why it ends

/** Why a node will stop, in one or two words. */
export function autostopReason(why: INodeAutostop['ends_why'], trans: TranslationBundle): string {
  const names: { readonly [why: string]: string } = {
    idle: trans.__('idle'),
    session: trans.__('maximum session length'),
    deadline: trans.__('deadline'),
    budget: trans.__('budget used up')
  };
  return names[why ?? ''] ?? why ?? '';
}

/** When and why a node stops: `Auto-stop in 42 min · idle`, `In use · auto-stop 1 h after it becomes idle`. */
export function autostopSummary(
  autostop: INodeAutostop,
  now_s: number,
  trans: TranslationBundle
): string {
  if (autostop.ends_at === null) {
    return withoutEnd(autostop, trans);
  }
  return withReason(
    autostopIn(autostop, formatDuration(autostop.ends_at - now_s, trans), trans),
    autostopReason(autostop.ends_why, trans)
  );
}

/**
 * When a node stops, in one or two words: `42 min`, `In use`, `No auto-stop`, `Starting…` while a kernel starts.
 *
 *  While the activity is unknown, as without a connection, only the rule can be shown: `Auto-stop after 1 h idle`.
 */
export function autostopShort(
  autostop: INodeAutostop,
  { now_s, isStarting }: { readonly now_s: number; readonly isStarting: boolean },
  trans: TranslationBundle
): string {
  const { ends_at, idle_after_s, session_s, verdict, is_warning, action } = autostop;
  if (ends_at !== null) {
    const left_s = ends_at - now_s;
    return is_warning ? formatCountdown(left_s) : formatDuration(left_s, trans);
  }
  if (idle_after_s === null && session_s === null) {
    return trans.__('No auto-stop');
  }
  if (verdict !== 'unknown' || idle_after_s === null) {
    return trans.__('In use');
  }
  if (isStarting) {
    return trans.__('Starting…');
  }
  const span = formatDuration(idle_after_s, trans);
  return action === 'stop'
    ? trans.__('Auto-stop after %1 idle', span)
    : trans.__('Auto-delete after %1 idle', span);
}

/** The time left on a node's card, with what happens then: `stops in 42 min`. */
export function endsIn({ action }: INodeAutostop, span: string, trans: TranslationBundle): string {
  return action === 'stop' ? trans.__('stops in %1', span) : trans.__('deleted in %1', span);
}

/** The rules that will end a node that is in use. */
function withoutEnd(autostop: INodeAutostop, trans: TranslationBundle): string {
  const { idle_after_s, session_s, verdict, action } = autostop;
  if (idle_after_s === null) {
    return session_s === null
      ? trans.__('Auto-stop is off')
      : trans.__('No auto-stop while the current cell runs');
  }
  const span = formatDuration(idle_after_s, trans);
  return withReason(
    verdict === 'unknown' ? activityUnknown(trans) : trans.__('In use'),
    action === 'stop'
      ? trans.__('auto-stop %1 after it becomes idle', span)
      : trans.__('auto-delete %1 after it becomes idle', span)
  );
}

function activityUnknown(trans: TranslationBundle): string {
  return trans.__('Activity unknown (treated as busy)');
}

/** The reason for the verdict. That unknown activity counts as use is added if the summary doesn't say so. */
export function activityReason(autostop: INodeAutostop, trans: TranslationBundle): string {
  const { reason, verdict, ends_why } = autostop;
  // without a reason to stop, the summary says it; before an idle stop, unknown activity no longer counts as use
  return verdict === 'unknown' && ends_why !== null && ends_why !== 'idle'
    ? withReason(activityUnknown(trans), reason)
    : reason;
}

/**
 * The summary shortly before the end, to the second: `Auto-stop in 4:12 · idle for 55 min`.
 *
 *  @param asked_s when the server sent the settings, by its own clock
 */
export function autostopCountdown(
  autostop: INodeAutostop,
  now_s: number,
  asked_s: number,
  trans: TranslationBundle
): string {
  const left_s = (autostop.ends_at ?? now_s) - now_s;
  const nowWords = autostop.action === 'stop' ? trans.__('Stopping now') : trans.__('Deleting now');
  const what = left_s > 0 ? autostopIn(autostop, formatCountdown(left_s), trans) : nowWords;
  return withReason(what, detailedReason(autostop, now_s - asked_s, trans));
}

function autostopIn({ action }: INodeAutostop, span: string, trans: TranslationBundle): string {
  return action === 'stop'
    ? trans.__('Auto-stop in %1', span)
    : trans.__('Auto-delete in %1', span);
}

function withReason(what: string, why: string): string {
  return why ? `${what} · ${why}` : what;
}

/** Why a node will stop, with the time that matters. */
function detailedReason(
  autostop: INodeAutostop,
  since_s: number,
  trans: TranslationBundle
): string {
  const { ends_why, session_s, idle_s } = autostop;
  if (ends_why === 'idle' && idle_s !== null) {
    return trans.__('idle for %1', formatDuration(idle_s + since_s, trans));
  }
  return ends_why === 'session' && session_s !== null
    ? trans.__('maximum session length of %1', formatDuration(session_s, trans))
    : autostopReason(ends_why, trans);
}

/** The time until which the user keeps the node running, or an empty string. */
export function keptRunning(
  autostop: INodeAutostop,
  now_s: number,
  trans: TranslationBundle
): string {
  if (autostop.kept_while_busy) {
    return trans.__('Keeps running until the current cell ends');
  }
  return autostop.kept_until !== null && autostop.kept_until > now_s
    ? trans.__(
        'Keeps running until %1',
        formatMoment(Math.round(autostop.kept_until / 60) * 60, now_s)
      )
    : '';
}

export function sourceName(source: IActivitySource['source'], trans: TranslationBundle): string {
  const names: { readonly [source: string]: string } = {
    execution: trans.__('Running cells'),
    accelerator: trans.__('Chip use'),
    human: trans.__('Your activity'),
    output: trans.__('Output'),
    connection: trans.__('Connected notebooks and clients'),
    cpu: trans.__('CPU time')
  };
  return names[source] ?? source;
}

/** @param autostop of the node: CPU time substitutes chip use that is unknown, and the summary says what is unknown */
export function sourceState(
  { state, age_s }: IActivitySource,
  { sources, verdict }: Pick<INodeAutostop, 'sources' | 'verdict'>,
  trans: TranslationBundle
): string {
  if (state === 'unknown') {
    const hasSubstitute = sources.some(one => one.source === 'cpu' && one.state !== 'unknown');
    return hasSubstitute
      ? trans.__('unknown (output and CPU time count instead)')
      : verdict === 'unknown'
        ? trans.__('unknown')
        : trans.__('unknown (treated as busy)');
  }
  if (state === 'active') {
    return trans.__('now');
  }
  return age_s === null ? trans.__('none') : trans.__('%1 ago', formatDuration(age_s, trans));
}

export function verdictName(
  verdict: IActivityInterval['verdict'],
  trans: TranslationBundle
): string {
  const names: { readonly [verdict: string]: string } = {
    busy: trans.__('in use'),
    idle: trans.__('idle'),
    unknown: trans.__('unknown (treated as busy)')
  };
  return names[verdict] ?? verdict;
}

/** The reason that the node gave, or the active sources. */
export function intervalDetail(
  { sources, detail }: IActivityInterval,
  trans: TranslationBundle
): string {
  return detail || sources.map(source => sourceName(source as never, trans)).join(', ');
}

/** The chart as text, for users who can't see it. */
export function activityDescription(
  { now, stretches }: IAutostopHistory,
  trans: TranslationBundle
): string {
  const since = now - HOUR_S;
  const parts = (['busy', 'idle', 'unknown'] as const).flatMap(verdict => {
    const all_s = stretches
      .filter(stretch => stretch.verdict === verdict)
      .reduce((sum, { starts_at, ends_at }) => sum + ends_at - Math.max(since, starts_at), 0);
    return all_s >= 1
      ? [trans.__('%1 for %2', verdictName(verdict, trans), formatDuration(all_s, trans))]
      : [];
  });
  return parts.length > 0
    ? trans.__('%1; no data for the remaining time.', parts.join(', '))
    : trans.__('Not enough data yet.');
}

/** What the guard can do, or why it cannot; only the reason comes from the agent, in English. */
export function guardDetail(
  { node_id, guard }: Pick<INodeAutostop, 'node_id' | 'guard'>,
  trans: TranslationBundle
): string {
  return guard.state === 'armed'
    ? trans.__('can stop or delete %1 even while your own machine is off', node_id)
    : guard.detail;
}

export function guardState(state: string, trans: TranslationBundle): string {
  const names: { readonly [state: string]: string } = {
    armed: trans.__('on'),
    off: trans.__('off'),
    cannot: trans.__("can't stop the node"),
    unknown: trans.__('unknown')
  };
  return names[state] ?? state;
}
