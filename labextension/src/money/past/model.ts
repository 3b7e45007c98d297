/** Money over time: asked for with the sums beside it while it is looked at, and not at all otherwise. */

import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { problemOf } from '../../request';
import { MoneyClient } from '../client';
import { IPastAnswer, PastChoice } from '../pastrecords';
import { ISpend } from '../records';
import { IDated, IMoneyModel, IPart } from '../tokens';

export const SPANS: readonly PastChoice[] = [
  { by: 'hour', last: 24 },
  { by: 'day', last: 7 },
  { by: 'day', last: 30 }
];

/** Money over time, as it stands now. */
export interface IPastModel {
  readonly choice: PastChoice;
  readonly part: IPart<IPastAnswer>;
  readonly changed: ISignal<IPastModel, void>;

  /** Until there is an answer to it, the one to the choice before stands. */
  choose(choice: PastChoice): void;
  /** Keep it new for as long as somebody looks, until what is returned is disposed of. */
  look(): IDisposable;
}

type Money = Pick<IMoneyModel, 'parts' | 'isWatched' | 'stateChanged'>;

export class PastModel implements IPastModel {
  constructor(
    private readonly _client: Pick<MoneyClient, 'past'>,
    private readonly _money: Money
  ) {
    this._money.stateChanged.connect(this._follow, this);
  }

  get choice(): PastChoice {
    return this._choice;
  }

  get part(): IPart<IPastAnswer> {
    return this._part;
  }

  get changed(): ISignal<IPastModel, void> {
    return this._changed;
  }

  choose(choice: PastChoice): void {
    this._choice = choice;
    this._part = { ...this._part, problem: null };
    this._changed.emit();
    void this._ask();
  }

  look(): IDisposable {
    this._lookers += 1;
    this._follow();
    return new DisposableDelegate(() => (this._lookers -= 1));
  }

  dispose(): void {
    this._money.stateChanged.disconnect(this._follow, this);
  }

  /** New sums are what makes the past worth asking for. */
  private _follow(): void {
    const { dated } = this._money.parts.spend;
    if (!dated || dated === this._seen || !this._money.isWatched || this._lookers === 0) {
      return;
    }
    this._seen = dated;
    if ('budget' in this._choice && !hasBudget(dated.data, this._choice.budget)) {
      this.choose(SPANS[0]);
    } else {
      void this._ask();
    }
  }

  /** An answer that is no longer waited for is dropped. */
  private async _ask(): Promise<void> {
    const turn = ++this._turn;
    let part: IPart<IPastAnswer>;
    try {
      part = { dated: await this._client.past(this._choice), problem: null };
    } catch (error) {
      const { dated } = this._part;
      const isOfChoice = dated && sameChoice(choiceOf(dated.data), this._choice);
      part = { dated: isOfChoice ? dated : null, problem: problemOf(error) };
    }
    if (turn === this._turn) {
      this._part = part;
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _choice: PastChoice = SPANS[0];
  private _part: IPart<IPastAnswer> = { dated: null, problem: null };
  private _seen: IDated<ISpend> | null = null;
  private _lookers = 0;
  private _turn = 0;
}

/** To what something is the answer. */
export function choiceOf(answer: IPastAnswer): PastChoice {
  return 'slots' in answer
    ? { by: answer.by, last: answer.slots.length }
    : { budget: answer.budget.name };
}

export function sameChoice(left: PastChoice, right: PastChoice): boolean {
  return 'budget' in left
    ? 'budget' in right && left.budget === right.budget
    : !('budget' in right) && left.by === right.by && left.last === right.last;
}

function hasBudget({ budgets }: ISpend, name: string): boolean {
  return budgets.some(budget => budget.name === name);
}
