import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IBudgetBurnDown, ISpendHistory } from '../api.generated';
import { Table } from '../components/table';
import * as messages from '../messages/spend';
import { formatAmount, formatCost } from '../messages/spend';
import { formatDuration } from '../messages/units';
import { formatMoment } from '../money/moments';
import { isUsed, slotName } from './historydata';

export interface IProps {
  title: string;
  trans: TranslationBundle;
}

interface ITimedProps extends IProps {
  /** Whether the times are those of an emulated cloud. */
  isEmulated: boolean;
}

/** The bars as a table, newest first, without empty ones. */
export function SlotsTable({
  history,
  isEmulated,
  ...rest
}: ITimedProps & { history: ISpendHistory }): JSX.Element {
  const { trans } = rest;
  const { by, slots } = history;
  const first = by === 'hour' ? messages.from(isEmulated, trans) : messages.day(isEmulated, trans);
  const rows = [...slots]
    .reverse()
    .filter(isUsed)
    .map(slot => [
      slotName(slot, history),
      formatCost(slot, trans),
      formatDuration(slot.ready_s, trans)
    ]);
  return (
    <Table
      head={[first, messages.cost(trans), messages.readyFor(trans)]}
      rows={rows}
      none={messages.nothingSpent(trans)}
      {...rest}
    />
  );
}

/** The approximate number of points of a burn-down in the table. */
const POINTS = 12;

/** The burn-down of a budget as a table. */
export function BurnDownTable({
  course,
  isEmulated,
  ...rest
}: ITimedProps & { course: IBudgetBurnDown }): JSX.Element {
  const { budget, points, now } = course;
  const { trans } = rest;
  const step = Math.ceil(points.length / POINTS);
  const rows = [...points]
    .reverse()
    .filter((_, index) => index % step === 0)
    .map(({ at, used, watched }) => [
      formatMoment(at, now),
      formatAmount(watched, budget.unit, trans),
      ...(budget.unwatched ? [formatAmount(used, budget.unit, trans)] : [])
    ]);
  const head = [messages.until(isEmulated, trans), messages.used(trans)];
  return (
    <Table
      head={budget.unwatched ? [...head, messages.atMost(trans)] : head}
      rows={rows}
      none={messages.nothingUsed(trans)}
      {...rest}
    />
  );
}
