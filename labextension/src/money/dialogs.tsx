/** Dialogs before something is deleted or all spending is stopped. */

import { InputDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ICleanupItem, INewBudget, IQueued } from '../api.generated';
import { confirmAction } from '../components/confirmaction';
import { IEnds } from '../fleet';
import * as capacityMessages from '../messages/capacity';
import * as messages from '../messages/cleanup';
import { endsText, resourceDetails, totalCost } from '../messages/cleanup';
import * as common from '../messages/common';
import { stateName } from '../messages/panel';
import * as problems from '../messages/problems';
import * as spendMessages from '../messages/spend';
import { IUsedBefore } from '../spend/rates';

interface IQuestion {
  readonly emulated: boolean;
  readonly trans: TranslationBundle;
}

/** Confirm the deletion of the selected resources, listing their names and cost. */
export async function confirmCleanup(
  names: readonly string[],
  known: readonly ICleanupItem[],
  { emulated, trans }: IQuestion
): Promise<boolean> {
  return confirmAction(
    names.length === 1
      ? messages.deleteOneQuestion(shortName(names[0]), trans)
      : messages.deleteQuestion(names.length, trans),
    common.deleteButton(trans),
    <CleanupQuestion names={names} known={known} emulated={emulated} trans={trans} />,
    trans
  );
}

function shortName(name: string): string {
  return name.split('/').pop() ?? name;
}

interface ICleanupQuestion extends IQuestion {
  readonly names: readonly string[];
  readonly known: readonly ICleanupItem[];
}

/** Each resource with its disk, and the total cost. */
export function CleanupQuestion(props: ICleanupQuestion): JSX.Element {
  const { names, known, emulated, trans } = props;
  const items = known.filter(({ name }) => names.includes(name));
  const foreign = items.filter(({ is_ours }) => !is_ours).length;
  const isPartial = items.length < names.length;
  return (
    <>
      <ul>
        {names.map(name => (
          <Doomed
            key={name}
            name={name}
            item={items.find(item => item.name === name)}
            trans={trans}
          />
        ))}
      </ul>
      {isPartial && <p>{messages.deleteConsequences(trans)}</p>}
      <p>
        <strong>{isPartial ? messages.costUnknown(trans) : totalCost(items, trans)}</strong>
        {emulated && ` ${common.emulatedCloudSentence(trans)}`}
      </p>
      {foreign > 0 && (
        <p>
          <strong>{messages.notOurs(foreign, trans)}</strong>
        </p>
      )}
    </>
  );
}

interface IDoomedProps {
  name: string;
  item: ICleanupItem | undefined;
  trans: TranslationBundle;
}

function Doomed({ name, item, trans }: IDoomedProps): JSX.Element {
  return item ? (
    <li>
      <strong>{shortName(name)}</strong> · {stateName(item.state, trans)} ·{' '}
      {resourceDetails(item, trans).join(' · ')}
      <div>{messages.consequences(item, trans)}</div>
    </li>
  ) : (
    <li>{name.split('/').slice(-3).join(' / ')}</li>
  );
}

/** States in which a queued resource has no node that could be lost. */
const WITHOUT_NODE = new Set(['ACCEPTED', 'WAITING_FOR_RESOURCES', 'FAILED', 'SUSPENDED']);

/** Confirm the removal of a queued resource; asks only if a node is deleted with it. */
export async function confirmRemoval(
  queuedId: string,
  known: IQueued | undefined,
  trans: TranslationBundle
): Promise<boolean> {
  if (known && WITHOUT_NODE.has(known.state)) {
    return true;
  }
  return confirmAction(
    capacityMessages.removeQuestion(queuedId, trans),
    common.remove(trans),
    <p>{capacityMessages.removeConsequences(trans)}</p>,
    trans
  );
}

/** Confirm that everything that is billed is stopped, listing the nodes and how each ends. */
export function confirmStopAll(
  rate: string,
  ends: IEnds,
  { emulated, trans }: IQuestion
): Promise<boolean> {
  return confirmAction(
    messages.stopAllQuestion(trans),
    messages.stopAll(trans),
    <>
      {endsText(ends, trans).map(text => (
        <p key={text}>
          <strong>{text}</strong>
        </p>
      ))}
      <p>{messages.stopAllConsequences(trans)}</p>
      <p>
        <strong>{messages.currentRate(rate, trans)}</strong>
      </p>
      {emulated && <p>{common.emulatedCloudSentence(trans)}</p>}
    </>,
    trans
  );
}

/** Let the user enter a new amount for a budget, above the amount used; null if the user cancels or changes nothing. */
export async function askForAmount(
  name: string,
  { amount, unit }: INewBudget,
  used: number,
  trans: TranslationBundle
): Promise<number | null> {
  // a number input would reject cents
  const { button, value } = await InputDialog.getText({
    title: problems.raiseBudgetTitle(name, trans),
    label: unit === 'usd' ? problems.newAmountUsd(trans) : problems.newAmountHours(trans),
    text: String(amountAbove(used, amount)),
    okLabel: problems.raise(trans),
    cancelLabel: common.cancel(trans)
  });
  const wanted = Number(value);
  const isNew = Number.isFinite(wanted) && wanted > 0 && wanted !== amount;
  return button.accept && isNew ? wanted : null;
}

/** Confirm that a budget ends nodes at once; does not ask if it ends none. */
export async function confirmEnds(
  name: string,
  used: IUsedBefore,
  amount: number,
  ends: IEnds,
  trans: TranslationBundle
): Promise<boolean> {
  const texts = endsText(ends, trans);
  if (texts.length === 0) {
    return true;
  }
  return confirmAction(
    problems.raiseBudgetTitle(name, trans),
    spendMessages.endThemNow(trans),
    <>
      <p>{spendMessages.usedUpAtOnce(used, amount, true, trans)}</p>
      {texts.map(text => (
        <p key={text}>
          <strong>{text}</strong>
        </p>
      ))}
    </>,
    trans
  );
}

/** The smallest multiple of a budget's amount that is not used up yet, without rounding errors of cents. */
function amountAbove(used: number, amount: number): number {
  const times = Math.floor(Number((used / amount).toPrecision(12))) + 1;
  return Number((times * amount).toPrecision(12));
}
