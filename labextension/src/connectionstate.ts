/** Text for the connection of a notebook to its kernel; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ILink } from './api.generated';
import * as messages from './messages/notebook';
import { formatDuration } from './messages/units';

/** The connection between the notebook and its kernel. */
export interface IConnection {
  /** The link from the server to the worker, as last reported. */
  readonly link: ILink | null;
  /** Since when the page has no connection to the server, in ms; null while connected. */
  readonly offlineSince_ms: number | null;
}

/** One line for the toolbar. */
export interface ILine {
  /** Short, because the toolbar drops other items rather than ours. */
  readonly text: string;
  /** The full text. */
  readonly title: string;
  readonly isFailure: boolean;
}

/** Shorter interruptions are not shown: a first connection takes a while, and JupyterLab usually reconnects at once. */
const SHORT_MS = 3_000;

/** Why a link is lost when its node is gone or stopped. */
export const WITH_NODE = new Set(['node_not_found', 'wrong_state']);

/** The line to show now; null if all is well. */
export function describe(
  { link, offlineSince_ms }: IConnection,
  now_ms: number,
  trans: TranslationBundle
): ILine | null {
  if (offlineSince_ms !== null && now_ms - offlineSince_ms >= SHORT_MS) {
    const age = formatDuration((now_ms - offlineSince_ms) / 1000, trans);
    return {
      text: messages.serverAway(age, trans),
      title: messages.serverAwayTitle(age, trans),
      isFailure: false
    };
  }
  return link && describeLink(link, now_ms, trans);
}

function describeLink(link: ILink, now_ms: number, trans: TranslationBundle): ILine | null {
  const age = formatDuration(Math.max(0, now_ms / 1000 - link.since), trans);
  switch (link.state) {
    case 'down':
      return {
        text: messages.disconnected(age, trans),
        title: messages.disconnectedTitle(age, trans),
        isFailure: false
      };
    case 'resuming':
      return {
        text: messages.catchingUp(trans),
        title: messages.catchingUpTitle(trans),
        isFailure: false
      };
    case 'lost':
      if (WITH_NODE.has(link.error_code)) {
        return null; // a line above the notebook says why the node has ended
      }
      return {
        text: messages.connectionLost(trans),
        title: messages.connectionLostTitle(age, link.message, trans),
        isFailure: true
      };
    default:
      return null;
  }
}
