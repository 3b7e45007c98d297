import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IBudgetCourse, ISpendHistory } from '../pastrecords';
import { formatAmount, formatMoment, formatSpan } from '../words';
import { formatCost, isUsed, slotName } from './words';

interface IProps {
  title: string;
  trans: TranslationBundle;
}

/** What bars say, number by number; the newest first, without those in which nothing was. */
export function Slots({ history, ...rest }: IProps & { history: ISpendHistory }): JSX.Element {
  const { trans } = rest;
  const { by, slots } = history;
  const first = by === 'hour' ? trans.__('From') : trans.__('Day');
  const rows = [...slots]
    .reverse()
    .filter(isUsed)
    .map(slot => [slotName(slot, by), formatCost(slot, trans), formatSpan(slot.ready_s, trans)]);
  return (
    <Table
      head={[first, trans.__('Cost'), trans.__('READY for')]}
      rows={rows}
      none={trans.__('Nothing was spent in this time.')}
      {...rest}
    />
  );
}

/** So many of the points of a course are told. */
const POINTS = 12;

/** What the line of a budget says, in steps. */
export function Courses({ course, ...rest }: IProps & { course: IBudgetCourse }): JSX.Element {
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
  const head = [trans.__('Until'), trans.__('Used')];
  return (
    <Table
      head={budget.unwatched ? [...head, trans.__('At most')] : head}
      rows={rows}
      none={trans.__('Nothing was used yet.')}
      {...rest}
    />
  );
}

interface ITableProps extends IProps {
  /** What is said in the place of no rows. */
  none: string;
  head: readonly string[];
  rows: readonly (readonly string[])[];
}

/** The numbers of a chart, for those who want them or cannot see it. */
export function Table({ head, rows, none, title, trans }: ITableProps): JSX.Element {
  return (
    <details className="jp-tpu-Raw">
      <summary>{trans.__('As a table')}</summary>
      {rows.length === 0 ? (
        <div className="jp-tpu-Muted">{none}</div>
      ) : (
        <table className="jp-tpu-Table" aria-label={title}>
          <thead>
            <tr>
              {head.map(name => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([first, ...rest], index) => (
              <tr key={index}>
                <th scope="row">{first}</th>
                {rest.map((text, column) => (
                  <td key={column}>{text}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}
