import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';
import * as common from '../../messages/common';

interface IProps {
  title: string;
  children: React.ReactNode;
}

/** A titled part of the page. */
export function Card({ title, children }: IProps): JSX.Element {
  const id = useId();
  return (
    <section className="jp-tpu-Card" aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

interface IRowsProps<T> {
  label: string;
  /** Shown instead of an empty list. */
  empty: string;
  items: readonly T[];
  keyOf: (item: T) => string;
  children: (item: T) => React.ReactNode;
  trans: TranslationBundle;
}

/** The most rows in a list: a page with ten thousand nodes would be slow and useless. */
const MAX_ROWS = 100;

/** A list, or a text in place of an empty one. */
export function Rows<T>({
  label,
  empty,
  items,
  keyOf,
  children,
  trans
}: IRowsProps<T>): JSX.Element {
  if (items.length === 0) {
    return <div className="jp-tpu-Muted">{empty}</div>;
  }
  const hidden = items.length - MAX_ROWS;
  return (
    <>
      <ul className="jp-tpu-Rows" aria-label={label}>
        {items.slice(0, MAX_ROWS).map(item => (
          <li key={keyOf(item)}>{children(item)}</li>
        ))}
      </ul>
      {hidden > 0 && <div className="jp-tpu-Muted">{common.andMore(hidden, trans)}</div>}
    </>
  );
}
