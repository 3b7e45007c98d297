/** Describe the connection between a notebook and its kernel as text; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ILink } from './api.generated';
import * as messages from './messages/notebook';
import { formatDuration } from './messages/units';

/** The connection between the notebook and its kernel. */
export interface IConnection {
  /** The last reported state of the link between server and worker. */
  readonly link: ILink | null;
  /** When the page lost its connection to the server, in ms; null while it is connected. */
  readonly offlineSince_ms: number | null;
}

/** One line for the notebook's toolbar. */
export interface ILine {
  /** Short text, so that the toolbar does not hide this item to save space. */
  readonly text: string;
  /** The full text. */
  readonly title: string;
  readonly isFailure: boolean;
}

/** Don't show shorter interruptions: a first connection takes a while, and JupyterLab usually reconnects at once. */
const SHORT_MS = 3_000;

/** Error codes of a link that is lost because its node was stopped or deleted. */
export const WITH_NODE = new Set(['node_not_found', 'wrong_state']);

/** Return the line to show now, or null if there is no problem. */
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
        return null; // the line above the notebook explains why the node was stopped or deleted
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
