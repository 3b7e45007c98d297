import React from 'react';
import * as common from '../messages/common';
import { IProps } from '../spend/historytables';

/** The data of a chart as a table, also for users who can't see the chart. */
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

export interface ITableProps extends IProps {
  /** The text that replaces an empty table. */
  none: string;
  head: readonly string[];
  rows: readonly (readonly string[])[];
}
