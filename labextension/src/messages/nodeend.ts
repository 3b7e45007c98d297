/** The end of a node: what happened, when and why, and how to go on. Every part of the page uses the same sentence. */

import { TranslationBundle } from '@jupyterlab/translation';
import { INodeEnd, INodeRecovery } from '../api.generated';
import { formatMoment } from '../money/moments';

/** `my-node was stopped at 16:15: idle for 1 h.` The server's `message`, in the page's language and clock. */
export function endText(end: INodeEnd, now: Date, trans: TranslationBundle): string {
  const at = formatMoment(end.at, now.getTime() / 1000);
  return end.is_deleted ? deletedText(end, at, trans) : stoppedText(end, at, trans);
}

function stoppedText(
  { cause, node_id, name, detail }: INodeEnd,
  at: string,
  trans: TranslationBundle
): string {
  switch (cause) {
    case 'stop':
    case 'delete':
      return trans.__('You stopped %1 at %2.', node_id, at);
    case 'idle':
      return trans.__('%1 was stopped at %2: idle for %3.', node_id, at, detail);
    case 'session':
      return trans.__(
        '%1 was stopped at %2: maximum session length of %3 reached.',
        node_id,
        at,
        detail
      );
    case 'deadline':
      return trans.__('%1 was stopped at %2: deadline reached.', node_id, at);
    case 'budget':
      return trans.__(
        '%1 was stopped at %2: budget %3 is used up (%4).',
        node_id,
        at,
        name,
        detail
      );
    case 'stop_all':
      return trans.__('%1 was stopped at %2: you stopped everything.', node_id, at);
    case 'preempted':
      return preemptedText(node_id, at, trans);
    case 'repair':
      return repairText(node_id, at, trans);
    case 'unknown':
      return trans.__('%1 was stopped at %2, but not by this Jupyter server.', node_id, at);
  }
}

function deletedText(
  { cause, node_id, name, detail }: INodeEnd,
  at: string,
  trans: TranslationBundle
): string {
  switch (cause) {
    case 'stop':
    case 'delete':
      return trans.__('You deleted %1 at %2.', node_id, at);
    case 'idle':
      return trans.__('%1 was deleted at %2: idle for %3.', node_id, at, detail);
    case 'session':
      return trans.__(
        '%1 was deleted at %2: maximum session length of %3 reached.',
        node_id,
        at,
        detail
      );
    case 'deadline':
      return trans.__('%1 was deleted at %2: deadline reached.', node_id, at);
    case 'budget':
      return trans.__(
        '%1 was deleted at %2: budget %3 is used up (%4).',
        node_id,
        at,
        name,
        detail
      );
    case 'stop_all':
      return trans.__('%1 was deleted at %2: you stopped everything.', node_id, at);
    case 'preempted':
      return preemptedText(node_id, at, trans);
    case 'repair':
      return repairText(node_id, at, trans);
    case 'unknown':
      return trans.__('%1 was deleted at %2, but not by this Jupyter server.', node_id, at);
  }
}

function preemptedText(node_id: string, at: string, trans: TranslationBundle): string {
  return trans.__('%1 was pre-empted at %2: the cloud needed the machine.', node_id, at);
}

function repairText(node_id: string, at: string, trans: TranslationBundle): string {
  return trans.__('%1 went down at %2 for repair by Google.', node_id, at);
}

/** `my-node pre-empted at 16:15 · recreating (attempt 1 of 3)` */
export function recreatingText(
  { at, node_id }: INodeEnd,
  { attempt, max_attempts }: INodeRecovery,
  now: Date,
  trans: TranslationBundle
): string {
  const clock = formatMoment(at, now.getTime() / 1000);
  return trans.__(
    '%1 pre-empted at %2 · recreating (attempt %3 of %4)',
    node_id,
    clock,
    attempt,
    max_attempts
  );
}

/** `0:41`, `12:05`, `1:02:09` */
export function elapsedText(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return shown.map((part, index) => (index ? String(part).padStart(2, '0') : part)).join(':');
}

export function whatIsLeft(trans: TranslationBundle): string {
  return trans.__('Variables are lost; outputs are kept.');
}

/**
 * A note that the node's state is unknown while the cloud does not respond; `age` is that of the last list of nodes.
 */
export function stateUnknown(age: string | null, trans: TranslationBundle): string {
  return age === null
    ? trans.__("The node's current state is unknown.")
    : trans.__("The node's current state is unknown (last updated %1 ago).", age);
}

export function startNode(trans: TranslationBundle): string {
  return trans.__('Start node');
}

export function starting(trans: TranslationBundle): string {
  return trans.__('Starting…');
}

export function recreateNode(trans: TranslationBundle): string {
  return trans.__('Recreate node…');
}

export function startKernel(trans: TranslationBundle): string {
  return trans.__('Start kernel');
}

export function chooseKernel(trans: TranslationBundle): string {
  return trans.__('Choose kernel…');
}
