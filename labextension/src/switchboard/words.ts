/** What can be done to the emulated cloud, by name; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import { ICloud, ILinkFault, IScriptedFault, placeOf } from './records';

/** A fault that can be chosen: its name, and what the control API is asked for. */
export interface IChoice {
  readonly id: string;
  readonly label: string;
  readonly fields: JSONObject;
  /** Which calls it can hit; any, where nothing is said. */
  readonly fits?: RegExp;
}

/** Calls that a scripted fault can hit, those that matter most to a user of nodes first. */
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
  return method === '*' ? trans.__('any call') : method;
}

/** The faults of the form, each with a name that says what the caller will see. */
export function faultChoices(trans: TranslationBundle): readonly IChoice[] {
  return [
    choice('quota', trans.__('Refused: quota used up (429)')),
    {
      ...choice('stockout', trans.__('Accepted, then no capacity (stock-out)')),
      fits: /^(Create|Start)Node$/
    },
    {
      ...choice('not_allowlisted', trans.__('Refused: project not on the allow-list')),
      fits: /^Create/
    },
    choice('permission_denied', trans.__('Refused: permission denied (403)')),
    choice('api_disabled', trans.__('Refused: Cloud TPU API disabled (403)')),
    choice('location_denied', trans.__('Refused: location not allowed')),
    choice('unavailable', trans.__('Service unavailable (503)')),
    choice('internal', trans.__('Internal error (500)'), {
      kind: 'error',
      code: 'INTERNAL',
      message: 'Internal error encountered.'
    }),
    choice('html', trans.__('Error page of a load balancer (502)')),
    choice('truncated', trans.__('Done, but the answer breaks off')),
    choice('unknown_enum', trans.__('Done, with a state that nobody knows')),
    choice('latency', trans.__('Answer 10 s late'), { kind: 'latency', seconds: 10 }),
    choice('drop', trans.__('Connection breaks, nothing is done')),
    choice('applied_then_drop', trans.__('Done, but the answer is lost')),
    {
      ...choice('stuck', trans.__('Operation never ends')),
      fits: /^(Create|Delete|Start|Stop)/
    },
    {
      ...choice('not_yet_visible', trans.__('New nodes are not shown for a minute of its time'), {
        kind: 'not_yet_visible',
        seconds: 60
      }),
      fits: /^(List|Get)Nodes?$/
    }
  ];
}

/** Those that can hit a call. */
export function choicesFor(method: string, trans: TranslationBundle): readonly IChoice[] {
  return faultChoices(trans).filter(({ fits }) => !fits || method === '*' || fits.test(method));
}

function choice(id: string, label: string, fields: JSONObject = { kind: id }): IChoice {
  return { id, label, fields };
}

/** The name of a fault that waits; its kind, where it is none of those that can be chosen. */
export function faultName({ kind, message }: IScriptedFault, trans: TranslationBundle): string {
  const own = faultChoices(trans).find(
    ({ fields }) => fields.kind === kind && (kind !== 'error' || fields.message === message)
  );
  return own?.label ?? kind;
}

/** What can be done to the way to a worker; what is asked for one after the other. */
export interface ILinkChoice {
  readonly id: string;
  readonly label: string;
  readonly title: string;
  readonly asks: readonly JSONObject[];
}

export function linkChoices(trans: TranslationBundle): readonly ILinkChoice[] {
  return [
    {
      id: 'slow',
      label: trans.__('Slow'),
      title: trans.__('300 ms each way'),
      asks: [{ verb: 'latency', ms: 300 }]
    },
    {
      id: 'stall',
      label: trans.__('Stall'),
      title: trans.__('Nothing moves, nothing is lost'),
      asks: [{ verb: 'stall' }]
    },
    {
      id: 'cut',
      label: trans.__('Cut'),
      title: trans.__('Connections end, new ones are refused'),
      asks: [{ verb: 'refuse' }, { verb: 'reset' }]
    },
    {
      id: 'mend',
      label: trans.__('Mend'),
      title: trans.__('The end of all faults'),
      asks: [{ verb: 'clear' }]
    }
  ];
}

/** The state of a link in a few words. */
export function linkState(faults: readonly ILinkFault[], trans: TranslationBundle): string {
  return faults.map(fault => linkFaultName(fault, trans)).join(', ') || trans.__('no faults');
}

function linkFaultName({ verb, ms }: ILinkFault, trans: TranslationBundle): string {
  const words = new Map([
    ['latency', trans.__('%1 ms slower', ms ?? 0)],
    ['stall', trans.__('stalled')],
    ['refuse', trans.__('cut')],
    ['black_hole', trans.__('swallows everything')]
  ]);
  return words.get(verb) ?? verb;
}

/** What has changed in the cloud, in sentences. */
export function newsOf(before: ICloud, after: ICloud, trans: TranslationBundle): string {
  return [
    ...nodeNews(before, after, trans),
    before.clock.paused !== after.clock.paused &&
      (after.clock.paused ? trans.__('The clock stands still.') : trans.__('The clock runs.')),
    before.faults.length !== after.faults.length &&
      trans._n('%1 fault waits.', '%1 faults wait.', after.faults.length)
  ]
    .filter(Boolean)
    .join(' ');
}

function nodeNews(before: ICloud, after: ICloud, trans: TranslationBundle): string[] {
  const old = new Map(before.nodes.map(({ name, state }) => [name, state]));
  return after.nodes
    .filter(({ name, state }) => old.get(name) !== state)
    .map(({ name, state }) => trans.__('%1 is %2.', placeOf(name).id, state));
}

/** A moment of the emulated time in the browser's own format. */
export function formatMoment(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString(undefined, {
    dateStyle: 'medium',
    timeStyle: 'medium'
  });
}

/** Words between commas or spaces. */
export function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** A whole number, or null where nothing is written: without limit. */
export function countOf(text: string): number | null {
  return text.trim() === '' ? null : Number(text);
}

export function isCount(text: string): boolean {
  return /^\d{0,9}$/.test(text.trim());
}
