import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { INewBudget, INode, ISpend } from '../api.generated';
import { Button } from '../components/button';
import { Check, Select, TextField } from '../components/field';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import { endsText } from '../messages/cleanup';
import * as common from '../messages/common';
import * as messages from '../messages/spend';
import { weekdays } from '../messages/spend';
import { unusedName } from '../money/names';
import { endsAtCap, IUsedBefore, usedBefore } from './rates';

type BudgetUnit = INewBudget['unit'];
type BudgetPeriod = INewBudget['period'];
type BudgetAction = NonNullable<INewBudget['action']>;
type Weekday = NonNullable<INewBudget['resets_on']>;

interface IProps {
  spend: ISpend;
  /** The nodes that a budget may end at once. */
  nodes: readonly INode[];
  trans: TranslationBundle;
  onSet: (name: string, terms: INewBudget) => Promise<void>;
  onClose: () => void;
}

interface IDraft {
  name: string;
  amount: string;
  unit: BudgetUnit;
  period: BudgetPeriod;
  resets_on: Weekday;
  resets_at: string;
  action: BudgetAction;
}

const DRAFT: IDraft = {
  name: '',
  amount: '',
  unit: 'usd',
  period: 'week',
  resets_on: 'monday',
  resets_at: '00:00',
  action: 'stop'
};

/** The form of a budget: amount, period and what happens at the cap. */
export function BudgetForm({ spend, nodes, trans, onSet, onClose }: IProps): JSX.Element {
  const heading = useId();
  const taken = spend.budgets.map(({ name }) => name);
  const [draft, setDraft] = useState<IDraft>({ ...DRAFT, name: nameFor(DRAFT.period, taken) });
  const { isSending, problem, send } = useRequest();
  const change = (part: Partial<IDraft>): void => {
    const next = { ...draft, ...part };
    // the proposed name follows the period; a name that the user typed stays
    const isProposed = draft.name === nameFor(draft.period, taken);
    setDraft(part.period && isProposed ? { ...next, name: nameFor(part.period, taken) } : next);
  };
  const amount = Number(draft.amount);
  const isWrong = !(draft.amount.trim() !== '' && amount > 0 && Number.isFinite(amount));
  const terms = termsOf(draft, amount);
  const used = usedBefore(spend, terms);
  const isUsedUp = !isWrong && used.most >= amount && terms.action !== 'warn';
  const ends = isUsedUp ? endsText(endsAtCap(terms, spend, nodes), trans) : [];
  // the user must confirm again if other nodes would end than those shown
  const [confirmed, setConfirmed] = useState('');
  const isUnconfirmed = ends.length > 0 && confirmed !== ends.join();
  return (
    <form
      className="jp-tpu-Form jp-mod-inner"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!isWrong && draft.name && !isUnconfirmed) {
          send(async () => {
            await onSet(draft.name, terms);
            onClose();
          });
        }
      }}
    >
      <h4 id={heading}>{messages.setBudget(trans)}</h4>
      <TextField
        label={common.name(trans)}
        value={draft.name}
        onChange={name => change({ name })}
      />
      <div className="jp-tpu-Pair">
        <TextField
          label={messages.amount(trans)}
          value={draft.amount}
          note={used.most > 0 ? messages.usedSoFar(used, draft.unit, trans) : undefined}
          error={draft.amount && isWrong ? common.useNumberAboveZero(trans) : ''}
          onChange={amount => change({ amount })}
        />
        <Select
          label={messages.unit(trans)}
          value={draft.unit}
          onChange={unit => change({ unit: unit as BudgetUnit })}
        >
          <option value="usd">{messages.usDollars(trans)}</option>
          <option value="hours">{messages.nodeHours(trans)}</option>
        </Select>
      </div>
      <Window draft={draft} change={change} trans={trans} />
      <Select
        label={messages.atTheCap(trans)}
        // a grant covers dollars, not node-hours
        value={draft.unit === 'hours' && draft.action === 'stop' ? 'stop-all' : draft.action}
        onChange={action => change({ action: action as BudgetAction })}
      >
        {draft.unit === 'usd' && <option value="stop">{messages.stopBilled(trans)}</option>}
        <option value="stop-all">{messages.stopAll(trans)}</option>
        <option value="warn">{messages.onlyWarn(trans)}</option>
      </Select>
      {isUsedUp && (
        <UsedUp
          {...{ used, amount, ends, trans }}
          isConfirmed={!isUnconfirmed}
          onConfirm={isSure => setConfirmed(isSure ? ends.join() : '')}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} />}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onClose}>{common.cancel(trans)}</Button>
        <Button
          kind="accept"
          type="submit"
          disabled={isSending || isWrong || !draft.name || isUnconfirmed}
        >
          {messages.setThisBudget(trans)}
        </Button>
      </div>
    </form>
  );
}

/**
 * A name that reads well in "the weekly budget is used up"; the same in each language, because it is typed in commands.
 */
function nameFor(period: BudgetPeriod, taken: readonly string[]): string {
  const names = { day: 'daily', week: 'weekly', month: 'monthly', total: 'total' };
  return unusedName(names[period], taken);
}

interface IUsedUpProps extends Pick<IProps, 'trans'> {
  used: IUsedBefore;
  amount: number;
  /** Which nodes end, as sentences. */
  ends: readonly string[];
  isConfirmed: boolean;
  onConfirm: (isSure: boolean) => void;
}

/** A warning that the budget ends nodes at once, or blocks new ones, for the user to confirm. */
function UsedUp(props: IUsedUpProps): JSX.Element {
  const { used, amount, ends, isConfirmed, onConfirm, trans } = props;
  return (
    <div className="jp-tpu-Notice" role="alert">
      {messages.usedUpAtOnce(used, amount, ends.length > 0, trans)}
      {ends.map(text => (
        <div key={text}>
          <strong>{text}</strong>
        </div>
      ))}
      {ends.length > 0 && (
        <Check label={messages.endThemNow(trans)} checked={isConfirmed} onChange={onConfirm} />
      )}
    </div>
  );
}

interface IWindowProps {
  draft: IDraft;
  change: (part: Partial<IDraft>) => void;
  trans: TranslationBundle;
}

/** How often the budget resets, and at what time. */
function Window({ draft, change, trans }: IWindowProps): JSX.Element {
  return (
    <>
      <Select
        label={messages.period(trans)}
        value={draft.period}
        onChange={period => change({ period: period as BudgetPeriod })}
      >
        <option value="day">{messages.eachDay(trans)}</option>
        <option value="week">{messages.eachWeek(trans)}</option>
        <option value="month">{messages.eachMonth(trans)}</option>
        <option value="total">{messages.inTotal(trans)}</option>
      </Select>
      {draft.period === 'week' && (
        <Select
          label={messages.resetsOn(trans)}
          value={draft.resets_on}
          onChange={resets_on => change({ resets_on: resets_on as Weekday })}
        >
          {weekdays(trans).map(([day, label]) => (
            <option key={day} value={day}>
              {label}
            </option>
          ))}
        </Select>
      )}
      {draft.period !== 'total' && (
        <TextField
          label={messages.resetsAt(trans)}
          type="time"
          value={draft.resets_at}
          onChange={resets_at => change({ resets_at })}
        />
      )}
    </>
  );
}

/** The request for a draft, with only the fields that the period needs. */
function termsOf(draft: IDraft, amount: number): INewBudget {
  const { unit, period, resets_on, resets_at, action } = draft;
  return {
    ...{ amount, unit, period, action },
    ...(period === 'week' ? { resets_on } : {}),
    ...(period === 'total' ? {} : { resets_at })
  };
}
