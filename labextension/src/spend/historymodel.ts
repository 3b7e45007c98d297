/** Spending over time, requested together with the totals while visible and not at all otherwise. */

import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { IBudgetBurnDown, ISpend, ISpendHistory } from '../api.generated';
import { MoneyClient } from '../money/client';
import { IDated, IMoneyModel, IPart } from '../money/tokens';
import { problemOf } from '../request';

/** Which history is shown: spending by hour or by day, or one budget. */
export type HistoryChoice =
  { readonly by: 'hour' | 'day'; readonly last: number } | { readonly budget: string };

export type HistoryAnswer = ISpendHistory | IBudgetBurnDown;

export const SPANS: readonly HistoryChoice[] = [
  { by: 'hour', last: 24 },
  { by: 'day', last: 7 },
  { by: 'day', last: 30 }
];

/** The state of spending over time. */
export interface ISpendHistoryModel {
  readonly choice: HistoryChoice;
  readonly part: IPart<HistoryAnswer>;
  /** Whether newer numbers are being loaded: until then the totals are newer than the chart. */
  readonly isUpdating: boolean;
  readonly changed: ISignal<ISpendHistoryModel, void>;

  /** Choose a history. Until the response arrives, the previous one stays visible. */
  choose(choice: HistoryChoice): void;
  /** Keep the history up to date until the result is disposed. */
  subscribe(): IDisposable;
}

type Money = Pick<IMoneyModel, 'parts' | 'isWatched' | 'stateChanged'>;

export class SpendHistoryModel implements ISpendHistoryModel {
  constructor(
    private readonly _client: Pick<MoneyClient, 'spendHistory'>,
    private readonly _money: Money
  ) {
    this._money.stateChanged.connect(this._follow, this);
  }

  get choice(): HistoryChoice {
    return this._choice;
  }

  get part(): IPart<HistoryAnswer> {
    return this._part;
  }

  get isUpdating(): boolean {
    return this._isUpdating;
  }

  get changed(): ISignal<ISpendHistoryModel, void> {
    return this._changed;
  }

  choose(choice: HistoryChoice): void {
    this._choice = choice;
    this._part = { ...this._part, problem: null };
    void this._fetch();
  }

  subscribe(): IDisposable {
    this._subscribers += 1;
    this._follow();
    return new DisposableDelegate(() => (this._subscribers -= 1));
  }

  dispose(): void {
    this._money.stateChanged.disconnect(this._follow, this);
  }

  /** Request the history again when the totals change. */
  private _follow(): void {
    const { dated } = this._money.parts.spend;
    if (!dated || dated === this._seen || !this._money.isWatched || this._subscribers === 0) {
      return;
    }
    this._seen = dated;
    if ('budget' in this._choice && !hasBudget(dated.data, this._choice.budget)) {
      this.choose(SPANS[0]);
    } else {
      void this._fetch();
    }
  }

  /** Request the chosen history; a response that is no longer wanted is dropped. */
  private async _fetch(): Promise<void> {
    const turn = ++this._turn;
    this._isUpdating = true;
    this._changed.emit();
    let part: IPart<HistoryAnswer>;
    try {
      part = { dated: await this._client.spendHistory(this._choice), problem: null };
    } catch (error) {
      const { dated } = this._part;
      const isOfChoice = dated && sameChoice(choiceOf(dated.data), this._choice);
      part = { dated: isOfChoice ? dated : null, problem: problemOf(error) };
    }
    if (turn === this._turn) {
      this._part = part;
      this._isUpdating = false;
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _choice: HistoryChoice = SPANS[0];
  private _part: IPart<HistoryAnswer> = { dated: null, problem: null };
  private _seen: IDated<ISpend> | null = null;
  private _isUpdating = false;
  private _subscribers = 0;
  private _turn = 0;
}

/** The choice that a response belongs to. */
export function choiceOf(answer: HistoryAnswer): HistoryChoice {
  return 'slots' in answer
    ? { by: answer.by, last: answer.slots.length }
    : { budget: answer.budget.name };
}

export function sameChoice(left: HistoryChoice, right: HistoryChoice): boolean {
  return 'budget' in left
    ? 'budget' in right && left.budget === right.budget
    : !('budget' in right) && left.by === right.by && left.last === right.last;
}

function hasBudget({ budgets }: ISpend, name: string): boolean {
  return budgets.some(budget => budget.name === name);
}
