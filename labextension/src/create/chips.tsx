import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import * as messages from '../messages/create';
import { chipsWithMemory, priceLabel } from '../messages/create';
import { INodeSpec } from '../tokens';
import { IChipsRow, matching } from './offers';

interface IProps {
  rows: readonly IChipsRow[];
  spec: INodeSpec;
  trans: TranslationBundle;
  onChoose: (row: IChipsRow) => void;
}

/** A list of accelerator types with their sizes and prices, which can be searched. */
export function Chips({ rows, spec, trans, onChoose }: IProps): JSX.Element {
  const id = useId();
  const [filter, setFilter] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const found = matching(rows, filter);
  useEffect(() => showChecked(list.current), [spec.accelerator_type, filter]);
  return (
    <div className="jp-tpu-Field">
      <label htmlFor={`${id}-search`}>{messages.chips(trans)}</label>
      <input
        id={`${id}-search`}
        className="jp-mod-styled"
        type="search"
        autoComplete="off"
        spellCheck={false}
        placeholder={messages.searchChips(trans)}
        value={filter}
        onChange={event => setFilter(event.target.value)}
        onKeyDown={event => {
          // otherwise, Enter in a field of the form would create a node
          if (event.key === 'Enter') {
            event.preventDefault();
            found.slice(0, 1).forEach(onChoose);
          }
        }}
      />
      <div ref={list} className="jp-tpu-Chips" role="radiogroup" aria-label={messages.types(trans)}>
        {found.map(row => (
          <Row
            key={row.offer.accelerator_type}
            row={row}
            group={id}
            isChosen={row.offer.accelerator_type === spec.accelerator_type}
            trans={trans}
            onChoose={onChoose}
          />
        ))}
        {found.length === 0 && (
          <div className="jp-tpu-Muted" role="status">
            {messages.noChips(trans)}
          </div>
        )}
      </div>
    </div>
  );
}

interface IRowProps {
  row: IChipsRow;
  group: string;
  isChosen: boolean;
  trans: TranslationBundle;
  onChoose: (row: IChipsRow) => void;
}

function Row({ row, group, isChosen, trans, onChoose }: IRowProps): JSX.Element {
  const { accelerator_type, description } = row.offer;
  return (
    <label className="jp-tpu-Chips-row" title={description}>
      <input type="radio" name={group} checked={isChosen} onChange={() => onChoose(row)} />
      <span className="jp-tpu-Chips-type">{accelerator_type}</span>{' '}
      <span className="jp-tpu-Chips-size">{chipsWithMemory(row.offer, trans)}</span>{' '}
      <span className={row.covered ? 'jp-tpu-Chips-free' : 'jp-tpu-Chips-price'}>
        {row.covered ? messages.free(trans) : priceLabel(row.usd_per_hour, trans)}
      </span>
    </label>
  );
}

/** Scroll the list, but not the elements around it, to the chosen row. */
function showChecked(list: HTMLElement | null): void {
  const row = list?.querySelector<HTMLElement>('input:checked')?.closest('label');
  if (list && row) {
    // offsets are relative to the list, because it is the row's offset parent
    const top = row.offsetTop;
    const isHidden =
      top < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight;
    if (isHidden) {
      list.scrollTop = top - row.offsetHeight;
    }
  }
}
