/** The faults that can be simulated, by name; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import * as common from '../messages/common';
import * as messages from '../messages/simulator';
import { ICloud, ILinkFault, IScriptedFault, IWorkerFault, placeOf } from './records';
import { dateLocale } from '../money/moments';

/** A fault in the form: its label, and the fields of its request to the control API. */
export interface IChoice {
  readonly id: string;
  readonly label: string;
  readonly fields: JSONObject;
  /** The calls that it applies to; all if undefined. */
  readonly fits?: RegExp;
}

/** Calls that a fault can hit, the most relevant first. */
export const METHODS = [
  'CreateNode',
  'DeleteNode',
  'StartNode',
  'StopNode',
  'ListNodes',
  'GetNode',
  'GetOperation',
  'CreateQueuedResource',
  'DeleteQueuedResource',
  '*'
];

export function methodName(method: string, trans: TranslationBundle): string {
  return method === '*' ? messages.anyCall(trans) : method;
}

/** The faults in the form, named by their effect on the caller. */
export function faultChoices(trans: TranslationBundle): readonly IChoice[] {
  return [
    choice('quota', messages.faultQuota(trans)),
    {
      ...choice('stockout', messages.faultStockout(trans)),
      fits: /^(Create|Start)Node$/
    },
    {
      ...choice('not_allowlisted', messages.faultNotAllowlisted(trans)),
      fits: /^Create/
    },
    choice('permission_denied', messages.faultPermissionDenied(trans)),
    choice('api_disabled', messages.faultApiDisabled(trans)),
    choice('location_denied', messages.faultLocationDenied(trans)),
    choice('unavailable', messages.faultUnavailable(trans)),
    choice('internal', messages.faultInternal(trans), {
      kind: 'error',
      code: 'INTERNAL',
      message: 'Internal error encountered.'
    }),
    choice('html', messages.faultHtml(trans)),
    choice('truncated', messages.faultTruncated(trans)),
    choice('unknown_enum', messages.faultUnknownState(trans)),
    choice('latency', messages.faultLate(trans), { kind: 'latency', seconds: 10 }),
    choice('drop', messages.faultDropped(trans)),
    choice('applied_then_drop', messages.faultResponseLost(trans)),
    {
      ...choice('stuck', messages.faultStuck(trans)),
      fits: /^(Create|Delete|Start|Stop)/
    },
    {
      ...choice('not_yet_visible', messages.faultHidden(trans), {
        kind: 'not_yet_visible',
        seconds: 60
      }),
      fits: /^(List|Get)Nodes?$/
    }
  ];
}

/** The faults that apply to a call. */
export function choicesFor(method: string, trans: TranslationBundle): readonly IChoice[] {
  return faultChoices(trans).filter(({ fits }) => !fits || method === '*' || fits.test(method));
}

function choice(id: string, label: string, fields: JSONObject = { kind: id }): IChoice {
  return { id, label, fields };
}

/** The label of a pending fault, or its kind if the form has no such fault. */
export function faultName({ kind, message }: IScriptedFault, trans: TranslationBundle): string {
  const own = faultChoices(trans).find(
    ({ fields }) => fields.kind === kind && (kind !== 'error' || fields.message === message)
  );
  return own?.label ?? kind;
}

/** A fault of a worker or of the connection to it; its requests are sent one after the other. */
export interface IWorkerChoice {
  readonly id: string;
  readonly label: string;
  readonly title: string;
  readonly requests: readonly JSONObject[];
}

export function linkChoices(trans: TranslationBundle): readonly IWorkerChoice[] {
  return [
    {
      id: 'slow',
      label: messages.slow(trans),
      title: messages.slowTitle(trans),
      requests: [{ verb: 'latency', ms: 300 }]
    },
    {
      id: 'stall',
      label: messages.stall(trans),
      title: messages.stallTitle(trans),
      requests: [{ verb: 'stall' }]
    },
    {
      id: 'cut',
      label: messages.cut(trans),
      title: messages.cutTitle(trans),
      requests: [{ verb: 'refuse' }, { verb: 'reset' }]
    },
    {
      id: 'mend',
      label: messages.restore(trans),
      title: messages.restoreTitle(trans),
      requests: [{ verb: 'clear' }]
    }
  ];
}

/** The state of a connection in a few words. */
export function linkState(faults: readonly ILinkFault[], trans: TranslationBundle): string {
  return (
    faults.map(fault => linkFaultName(fault, trans)).join(', ') || messages.connectionFine(trans)
  );
}

function linkFaultName({ verb, ms }: ILinkFault, trans: TranslationBundle): string {
  const words = new Map([
    ['latency', messages.slower(ms ?? 0, trans)],
    ['stall', messages.stalled(trans)],
    ['refuse', messages.isCut(trans)],
    ['black_hole', messages.dropsEverything(trans)]
  ]);
  return words.get(verb) ?? verb;
}

/** How many times longer everything takes on a slow worker. */
const SLOW_FACTOR = 4;

/** The faults of a worker's machine. Only the network to worker 0 is cut, because all workers depend on it. */
export function workerChoices(
  worker_id: number,
  trans: TranslationBundle
): readonly IWorkerChoice[] {
  return [
    {
      id: 'kill',
      label: messages.kill(trans),
      title: messages.killTitle(trans),
      requests: [{ action: 'kill' }]
    },
    {
      id: 'slow',
      label: messages.slow(trans),
      title: messages.slowWorkerTitle(SLOW_FACTOR, trans),
      requests: [{ action: 'slow', factor: SLOW_FACTOR }]
    },
    {
      id: 'freeze',
      label: messages.freeze(trans),
      title: messages.freezeTitle(trans),
      requests: [{ action: 'freeze' }]
    },
    ...(worker_id > 0
      ? [
          {
            id: 'cut',
            label: messages.cut(trans),
            title: messages.cutWorkerTitle(trans),
            requests: [{ action: 'cut', other_worker_id: 0 }]
          }
        ]
      : []),
    {
      id: 'clear',
      label: messages.restore(trans),
      title: messages.restoreTitle(trans),
      requests: [{ action: 'clear' }]
    }
  ];
}

/** The state of a worker in a few words. */
export function workerState(faults: readonly IWorkerFault[], trans: TranslationBundle): string {
  return (
    faults.map(fault => workerFaultName(fault, trans)).join(', ') || messages.connectionFine(trans)
  );
}

function workerFaultName(fault: IWorkerFault, trans: TranslationBundle): string {
  const words = new Map([
    ['slow', messages.timesSlower(fault.factor ?? 1, trans)],
    ['freeze', messages.frozen(trans)],
    ['cut', messages.cutFrom(fault.other_worker_id ?? 0, trans)]
  ]);
  return words.get(fault.verb) ?? fault.verb;
}

/** The changes of the cloud as sentences for screen readers. */
export function changesOf(before: ICloud, after: ICloud, trans: TranslationBundle): string {
  return [
    ...nodeChanges(before, after, trans),
    before.clock.paused !== after.clock.paused &&
      (after.clock.paused ? messages.clockPaused(trans) : messages.clockRuns(trans)),
    before.faults.length !== after.faults.length &&
      messages.pendingFaultCount(after.faults.length, trans)
  ]
    .filter(Boolean)
    .join(' ');
}

function nodeChanges(before: ICloud, after: ICloud, trans: TranslationBundle): string[] {
  const old = new Map(before.nodes.map(({ name, state }) => [name, state]));
  return after.nodes
    .filter(({ name, state }) => old.get(name) !== state)
    .map(({ name, state }) => common.nodeIs(placeOf(name).id, state, trans));
}

/** A time of the emulated clock in the page's language. */
export function formatMoment(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString(dateLocale(), {
    dateStyle: 'medium',
    timeStyle: 'medium'
  });
}

/** The words of a text, separated by commas or spaces. */
export function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** A whole number; null for an empty text, which means unlimited. */
export function countOf(text: string): number | null {
  return text.trim() === '' ? null : Number(text);
}

/** The largest number: nine digits fit into the field. */
export const MOST_COUNT = 999_999_999;

export function isCount(text: string): boolean {
  return /^\d{0,9}$/.test(text.trim());
}
