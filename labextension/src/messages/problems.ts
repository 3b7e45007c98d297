/** Errors: what to do about them, as buttons and sentences. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IAction, IError, IText } from '../api.generated';
import { formatMoment } from '../money/moments';
import { IProblem } from '../tokens';

export function details(trans: TranslationBundle): string {
  return trans.__('Details');
}

/** The message of a problem; that the server does not respond is known only to the browser. */
export function messageOf({ code, message }: IProblem, trans: TranslationBundle): string {
  return code === 'server_unreachable'
    ? trans.__('The Jupyter server is not responding.')
    : message || code;
}

export function copied(trans: TranslationBundle): string {
  return trans.__('Copied');
}

/** A record of the server that can be translated, such as an error. */
export interface ITranslatable extends Pick<IError, 'arguments' | 'texts' | 'times'> {
  readonly templates: { readonly [part: string]: string | undefined };
}

const PARTS = ['message', 'exists', 'hint', 'text', 'does', 'reason', 'detail', 'label'];

/** The record with its texts in the user's language where the catalogue has them, and times as the page shows them. */
export function translated<T extends ITranslatable>(record: T, trans: TranslationBundle): T {
  const texts = Object.entries(record).filter(
    (entry): entry is [string, string] => PARTS.includes(entry[0]) && typeof entry[1] === 'string'
  );
  const values = translatedValues(record, trans);
  const ours = texts.map(([part, english]) => {
    const template = record.templates[part] ?? english;
    return [part, inLanguage(english, template, values, trans)];
  });
  return { ...record, ...(Object.fromEntries(ours) as Partial<T>), arguments: values };
}

/** The values of a text; one may be a text with values of its own, or a time. */
function translatedValues(
  { arguments: values, texts = {}, times = {} }: Pick<IText, 'arguments' | 'texts' | 'times'>,
  trans: TranslationBundle
): IText['arguments'] {
  const now_s = Date.now() / 1000;
  const moments = Object.entries(times).map(([name, at]) => [name, formatMoment(at, now_s)]);
  const ours = Object.entries(texts).map(([name, text]) => [
    name,
    inLanguage(String(values[name]), text.template, translatedValues(text, trans), trans)
  ]);
  return { ...values, ...(Object.fromEntries([...ours, ...moments]) as IText['arguments']) };
}

/** A constant text of the server in the user's language. */
export function constantText(english: string, trans: TranslationBundle): string {
  return inLanguage(english, english, {}, trans);
}

function inLanguage(
  english: string,
  template: string,
  values: IText['arguments'],
  trans: TranslationBundle
): string {
  // The bundle would take these for its own placeholders and escapes.
  if (!english || /%[%\d]/.test(template)) {
    return english;
  }
  // only a template has values: an error's own text may quote braces
  return template === english
    ? trans.gettext(english)
    : trans
        .gettext(template)
        .replace(/\{(\w+)\}/g, (field, name: string) => String(values[name] ?? field));
}

/** The label of an action's button. */
export function actionLabel({ command, args }: IAction, trans: TranslationBundle): string {
  switch (command) {
    case 'tpu:open-form':
      return formLabel(args, trans);
    case 'tpu:show-section':
      return sectionLabel(args, trans);
    case 'tpu:raise-budget':
      return trans.__('Raise budget…');
    case 'tpu:open-console':
      return args.page === 'billing' ? trans.__('Link billing account') : trans.__('Enable API');
    case 'tpu:copy-command':
      return trans.__('Copy command');
    case 'tpu:start-node':
      return trans.__('Start node');
    case 'tpu:stop-node':
      return trans.__('Stop node…');
    case 'tpu:delete-node':
      return trans.__('Delete node…');
    case 'tpu:refresh':
      return trans.__('Refresh list');
  }
}

function formLabel({ way, zone }: IAction['args'], trans: TranslationBundle): string {
  if (way === 'search') {
    return trans.__('Search other zones');
  }
  return way === 'queue' ? trans.__('Wait in the queue') : trans.__('Try %1', String(zone));
}

function sectionLabel({ section }: IAction['args'], trans: TranslationBundle): string {
  switch (section) {
    case 'quota':
      return trans.__('Show quota');
    case 'cleanup':
      return trans.__('Clean up');
    case 'grants':
      return trans.__('Show grants');
    case 'capacity':
      return trans.__('Show searches and queue');
    default:
      return trans.__('Show budgets');
  }
}

/** What to do, where buttons replace the commands in the server's hint; empty if they need no text. */
export function advice(problem: IProblem, trans: TranslationBundle): string {
  const { zones, time } = problem.arguments;
  switch (problem.code) {
    case 'out_of_capacity':
      return zones ? trans.__('Other zones that offer this type: %1.', String(zones)) : '';
    case 'quota_exceeded':
      return trans.__(
        "Waiting won't help. Delete what you don't need (stopped and pre-empted nodes also count), choose another zone, or request more quota."
      );
    case 'credentials_missing':
      return trans.__(
        'Sign in with gcloud in a terminal, or open First steps in the TPU panel to try the emulated cloud.'
      );
    case 'api_disabled':
      return trans.__('Enable the API, wait a few minutes and try again.');
    case 'budget_exceeded':
      return time ? trans.__('Wait until %1, or raise the budget.', String(time)) : '';
    case 'node_exists':
      return trans.__('Choose another name, or delete the node with this name.');
    default:
      return '';
  }
}

/** The button of a failure that must be examined on the node. */
export function copySshCommand(trans: TranslationBundle): string {
  return trans.__('Copy SSH command');
}

// The dialog that raises a budget

export function raiseBudgetTitle(name: string, trans: TranslationBundle): string {
  return trans.__('Raise the budget %1', name);
}

export function newAmountUsd(trans: TranslationBundle): string {
  return trans.__('New amount (US dollars)');
}

export function newAmountHours(trans: TranslationBundle): string {
  return trans.__('New amount (node-hours)');
}

export function raise(trans: TranslationBundle): string {
  return trans.__('Raise');
}
