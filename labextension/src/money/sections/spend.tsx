import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import { IBudget, ISpend, LOST_BUDGETS } from '../records';
import { IPart } from '../tokens';
import {
  faultsOf,
  formatAmount,
  formatMoment,
  formatRate,
  formatSpan,
  formatSum,
  periodName
} from '../words';
import { BudgetForm } from './budgetform';
import { ISectionProps, Meter, PartBody, Section } from './section';

interface IFaultProps {
  part: IPart<ISpend>;
  trans: TranslationBundle;
}

/** Budgets that cannot be read, or may be lost, allow nothing: that is in sight whatever is open. */
export function SpendingFault({ part, trans }: IFaultProps): JSX.Element | null {
  const faults = part.dated ? faultsOf(part.dated.data) : [];
  return faults.length > 0 ? (
    <div className="jp-tpu-Notice jp-mod-fault" role="alert">
      <strong>{trans.__('Nothing that costs money can be started.')}</strong> {faults.join(' ')}
    </div>
  ) : null;
}

interface IProps extends ISectionProps {
  /** What was paid over time, where there is anything to show. */
  past: (spend: ISpend) => JSX.Element | null;
}

/** What is paid now, what was paid, and what is left of each budget. */
export function SpendSection({ model, acts, past, trans }: IProps): JSX.Element {
  const spend = model.parts.spend.dated?.data;
  return (
    <Section
      name="spend"
      title={trans.__('Spend')}
      summary={spend && formatRate(spend, trans)}
      isWarning={spend?.budgets.some(({ level }) => level === '80' || level === '100')}
      isOpen={model.open.has('spend')}
      onToggle={acts.onToggle}
    >
      <PartBody part={model.parts.spend} trans={trans}>
        {(data, now_s) => (
          <>
            <Sums spend={data} trans={trans} />
            {past(data)}
            <Budgets budgets={data.budgets} now_s={now_s} acts={acts} trans={trans} />
          </>
        )}
      </PartBody>
    </Section>
  );
}

function Sums({ spend, trans }: { spend: ISpend; trans: TranslationBundle }): JSX.Element {
  const sums: [string, string][] = [
    [trans.__('Now'), formatRate(spend, trans)],
    [trans.__('Today'), formatSum(spend.today, trans)],
    [trans.__('This week'), formatSum(spend.week, trans)],
    [trans.__('Total'), formatSum(spend.total, trans)]
  ];
  return (
    <>
      <dl className="jp-tpu-Details jp-tpu-Sums">
        {sums.map(([term, text]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>{text}</dd>
          </React.Fragment>
        ))}
      </dl>
      {spend.unpriced.length > 0 && (
        <div className="jp-tpu-Notice jp-tpu-Line">
          {trans.__('No price is known for %1: sums are without it.', spend.unpriced.join(', '))}
        </div>
      )}
      {!spend.is_complete && (
        <div className="jp-tpu-Notice jp-tpu-Line">
          {trans.__('Partial: there may be more that was not seen.')}
        </div>
      )}
    </>
  );
}

interface IBudgetsProps extends Pick<ISectionProps, 'acts' | 'trans'> {
  budgets: readonly IBudget[];
  now_s: number;
}

function Budgets({ budgets, now_s, acts, trans }: IBudgetsProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { problem, send, dismiss } = useSending();
  return (
    <>
      {budgets.length > 0 && (
        <ul className="jp-tpu-Items" aria-label={trans.__('Budgets')}>
          {budgets.map(budget => (
            <li key={budget.name}>
              <Budget budget={budget} now_s={now_s} trans={trans} />
              <div className="jp-tpu-Actions">
                <RemoveButton
                  name={budget.name}
                  trans={trans}
                  onClick={() => send(() => acts.onRemoveBudget(budget.name))}
                />
              </div>
            </li>
          ))}
        </ul>
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      {isAsking ? (
        <BudgetForm
          taken={budgets.map(({ name }) => name)}
          trans={trans}
          onSet={acts.onSetBudget}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button onClick={() => setAsking(true)}>{trans.__('Set a budget…')}</Button>
        </div>
      )}
    </>
  );
}

interface IRemoveProps {
  name: string;
  trans: TranslationBundle;
  onClick: () => void;
}

function RemoveButton({ name, trans, onClick }: IRemoveProps): JSX.Element {
  return name === LOST_BUDGETS ? (
    <Button onClick={onClick}>{trans.__('The budgets here are right')}</Button>
  ) : (
    <Button aria-label={trans.__('Remove the budget %1', name)} onClick={onClick}>
      {trans.__('Remove')}
    </Button>
  );
}

interface IBudgetProps {
  budget: IBudget;
  now_s: number;
  trans: TranslationBundle;
}

function Budget({ budget, now_s, trans }: IBudgetProps): JSX.Element {
  const text = usedOf(budget, trans);
  const terms = termsOf(budget, now_s, trans);
  return (
    <>
      <div className="jp-tpu-Split">
        <strong className="jp-tpu-Name" title={budget.name}>
          {budget.name}
        </strong>
        <Level budget={budget} trans={trans} />
      </div>
      {text && <div>{text}</div>}
      {budget.fraction !== null && (
        <Meter
          label={trans.__('Budget %1', budget.name)}
          fraction={budget.fraction}
          text={text}
          level={levelOf(budget)}
        />
      )}
      {terms && <div className="jp-tpu-Muted">{terms}</div>}
      {budget.error && <div className="jp-tpu-Complaint">{budget.error}</div>}
    </>
  );
}

function Level({ budget, trans }: Omit<IBudgetProps, 'now_s'>): JSX.Element | null {
  return budget.level === 'ok' ? null : (
    <span className={`jp-tpu-Badge jp-mod-${levelOf(budget)}`}>
      {budget.level === '100' ? trans.__('used up') : trans.__('over %1 %', budget.level)}
    </span>
  );
}

function levelOf({ level }: IBudget): 'ok' | 'near' | 'full' {
  const looks = { ok: 'ok', '50': 'ok', '80': 'near', '100': 'full' } as const;
  return looks[level] ?? 'full';
}

function usedOf(budget: IBudget, trans: TranslationBundle): string {
  if (budget.amount === null) {
    return '';
  }
  const amount = formatAmount(budget.amount, budget.unit, trans);
  const period = periodName(budget.period, trans);
  if (budget.used === null) {
    return trans.__('Use unknown, of %1 %2', amount, period);
  }
  const used = formatAmount(budget.used, budget.unit, trans);
  return budget.unwatched
    ? trans.__('Up to %1 of %2 %3: some of the time was not monitored', used, amount, period)
    : trans.__('%1 of %2 %3', used, amount, period);
}

/** What happens at the cap, and when. */
function termsOf(budget: IBudget, now_s: number, trans: TranslationBundle): string {
  const { action, level, runs_out_at, window_end } = budget;
  return [
    action === 'stop' && trans.__('stops all at the cap'),
    action === 'warn' && trans.__('only warns'),
    level !== '100' &&
      runs_out_at !== null &&
      runs_out_at > now_s &&
      trans.__('runs out in %1', formatSpan(runs_out_at - now_s, trans)),
    window_end !== null && trans.__('resets %1', formatMoment(window_end, now_s))
  ]
    .filter(Boolean)
    .join(' · ');
}
