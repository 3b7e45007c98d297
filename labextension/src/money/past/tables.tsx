import { TranslationBundle } from '@jupyterlab/translation';
import * as common from '../../messages/common';
import * as messages from '../../messages/spend';
import { formatAmount, formatCost } from '../../messages/spend';
import { formatDuration } from '../../messages/units';
import { IBudgetCourse, ISpendHistory } from '../pastrecords';
import { formatMoment } from '../words';
import { isUsed, slotName } from './words';

interface IProps {
  title: string;
  trans: TranslationBundle;
}

/** What bars say, number by number; the newest first, without those in which nothing was. */
export function Slots({ history, ...rest }: IProps & { history: ISpendHistory }): JSX.Element {
  const { trans } = rest;
  const { by, slots } = history;
  const first = by === 'hour' ? messages.from(trans) : messages.day(trans);
  const rows = [...slots]
    .reverse()
    .filter(isUsed)
    .map(slot => [
      slotName(slot, by),
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
  const head = [messages.until(trans), messages.used(trans)];
  return (
    <Table
      head={budget.unwatched ? [...head, messages.atMost(trans)] : head}
      rows={rows}
      none={messages.nothingUsed(trans)}
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
      <summary>{common.asTable(trans)}</summary>
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
