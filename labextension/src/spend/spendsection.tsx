import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { IBudget, INode, ISpend, ISpendOfTime } from '../api.generated';
import { Button } from '../components/button';
import { Facts } from '../components/facts';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as common from '../messages/common';
import * as messages from '../messages/spend';
import { budgetTerms, budgetUse, formatMoney, formatRate, nodeTime } from '../messages/spend';
import { ISectionProps, Meter, PartBody, Section } from '../money/section';
import { IPart } from '../money/tokens';
import { BudgetForm } from './budgetform';
import { budgetErrors } from './rates';

/**
 * The name that stands for budgets that a damaged journal may have lost. Removing it confirms that the others are
 * correct.
 */
const LOST_BUDGETS = 'lost-budgets';

interface IFaultProps {
  part: IPart<ISpend>;
  trans: TranslationBundle;
}

/** An error about damaged or lost budgets, which block all spending; shown whichever sections are open. */
export function SpendingFault({ part, trans }: IFaultProps): JSX.Element | null {
  const faults = part.dated ? budgetErrors(part.dated.data) : [];
  return faults.length > 0 ? (
    <div className="jp-tpu-Notice jp-mod-fault" role="alert">
      <strong>{messages.blocked(trans)}</strong> {faults.join(' ')}
    </div>
  ) : null;
}

interface IProps extends ISectionProps {
  /** Whether time and costs are emulated. */
  isEmulated?: boolean;
  /** The nodes that a new budget may end at once. */
  nodes?: readonly INode[];
  /** Renders spending over time, if there is any. */
  history: (spend: ISpend, isEmulated: boolean) => JSX.Element | null;
}

/** Current rate, totals and budgets. */
export function SpendSection(props: IProps): JSX.Element {
  const { model, actions, isEmulated = false, nodes = [], history, trans } = props;
  const spend = model.parts.spend.dated?.data;
  return (
    <Section
      name="spend"
      title={messages.title(trans)}
      summary={spend && messages.spentToday(formatMoney(spend.today, trans), trans)}
      isWarning={spend?.budgets.some(({ level }) => level === '80' || level === '100')}
      isOpen={model.open.has('spend')}
      onToggle={actions.onToggle}
    >
      <PartBody part={model.parts.spend} trans={trans}>
        {(data, now_s) => (
          <>
            <Sums spend={data} trans={trans} />
            {isEmulated && <div className="jp-tpu-Muted">{messages.emulatedTime(trans)}</div>}
            {history(data, isEmulated)}
            <Budgets spend={data} {...{ nodes, now_s, actions, trans }} />
          </>
        )}
      </PartBody>
    </Section>
  );
}

function Sums({ spend, trans }: { spend: ISpend; trans: TranslationBundle }): JSX.Element {
  const sums: [string, ISpendOfTime][] = [
    [messages.today(trans), spend.today],
    [messages.thisWeek(trans), spend.week],
    [messages.total(trans), spend.total]
  ];
  return (
    <>
      <dl className="jp-tpu-Details jp-tpu-Sums">
        <dt>{messages.now(trans)}</dt>
        <dd>{formatRate(spend, trans)}</dd>
        {sums.map(([term, sum]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>
              {formatMoney(sum, trans)}
              {sum.ready_s > 0 && (
                <span className="jp-tpu-Sums-time">{nodeTime(sum.ready_s, trans)}</span>
              )}
            </dd>
          </React.Fragment>
        ))}
      </dl>
      {spend.unpriced.length > 0 && (
        <div className="jp-tpu-Notice jp-tpu-Line">
          {messages.unpriced(spend.unpriced.join(', '), trans)}
        </div>
      )}
      {!spend.is_complete && (
        <div className="jp-tpu-Notice jp-tpu-Line">{messages.maybeMore(trans)}</div>
      )}
    </>
  );
}

interface IBudgetsProps extends Pick<ISectionProps, 'actions' | 'trans'> {
  spend: ISpend;
  nodes: readonly INode[];
  now_s: number;
}

function Budgets({ spend, nodes, now_s, actions, trans }: IBudgetsProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { problem, send, dismiss } = useRequest();
  const { budgets } = spend;
  return (
    <>
      {budgets.length > 0 && (
        <ul className="jp-tpu-Items" aria-label={messages.budgets(trans)}>
          {budgets.map(budget => (
            <li key={budget.name}>
              <Budget budget={budget} now_s={now_s} trans={trans} />
              <div className="jp-tpu-Actions">
                <RemoveButton
                  name={budget.name}
                  trans={trans}
                  onClick={() => send(() => actions.onRemoveBudget(budget.name))}
                />
              </div>
            </li>
          ))}
        </ul>
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      {isAsking ? (
        <BudgetForm
          spend={spend}
          nodes={nodes}
          trans={trans}
          onSet={actions.onSetBudget}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button onClick={() => setAsking(true)}>{messages.setBudgetEllipsis(trans)}</Button>
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
    <Button onClick={onClick}>{messages.budgetsAreCorrect(trans)}</Button>
  ) : (
    <Button aria-label={messages.removeBudget(name, trans)} onClick={onClick}>
      {common.remove(trans)}
    </Button>
  );
}

interface IBudgetProps {
  budget: IBudget;
  now_s: number;
  trans: TranslationBundle;
}

function Budget({ budget, now_s, trans }: IBudgetProps): JSX.Element {
  const text = budgetUse(budget, trans);
  const terms = budgetTerms(budget, now_s, trans);
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
          label={messages.budget(budget.name, trans)}
          fraction={budget.fraction}
          text={text}
          level={levelOf(budget)}
        />
      )}
      {terms.length > 0 && <Facts className="jp-tpu-Muted" facts={terms} />}
      {budget.error && <div className="jp-tpu-Complaint">{budget.error}</div>}
    </>
  );
}

function Level({ budget, trans }: Omit<IBudgetProps, 'now_s'>): JSX.Element | null {
  return budget.level === 'ok' ? null : (
    <span className={`jp-tpu-Badge jp-mod-${levelOf(budget)}`}>
      {budget.level === '100' || budget.fraction === null
        ? messages.usedUp(trans)
        : messages.usedShare(budget.fraction, trans)}
    </span>
  );
}

export function levelOf({ level }: IBudget): 'ok' | 'near' | 'full' {
  const looks = { ok: 'ok', '50': 'ok', '80': 'near', '100': 'full' } as const;
  return looks[level] ?? 'full';
}
