import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { IGrantRow } from '../api.generated';
import { Button } from '../components/button';
import { TextField } from '../components/field';
import * as common from '../messages/common';
import * as messages from '../messages/grants';
import { formatGrantRow } from '../messages/grants';

interface IProps {
  rows: readonly IGrantRow[];
  trans: TranslationBundle;
  onChange: (rows: readonly IGrantRow[]) => void;
}

/** The rows of a grant: each can be removed, and new ones added. */
export function GrantRows({ rows, trans, onChange }: IProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      {rows.length > 0 && (
        <ul className="jp-tpu-Items" aria-label={messages.rows(trans)}>
          {rows.map((row, index) => {
            const text = formatGrantRow(row, trans);
            return (
              <li key={index} className="jp-tpu-Split">
                <span className="jp-tpu-Grow">{text}</span>
                <Button
                  aria-label={messages.removeRow(text, trans)}
                  onClick={() => onChange(rows.filter((_, other) => other !== index))}
                >
                  {common.remove(trans)}
                </Button>
              </li>
            );
          })}
        </ul>
      )}
      {isAsking ? (
        <NewRow trans={trans} onAdd={row => onChange([...rows, row])} />
      ) : (
        <div className="jp-tpu-Actions">
          <Button onClick={() => setAsking(true)}>{messages.addRowEllipsis(trans)}</Button>
        </div>
      )}
    </>
  );
}

interface INewRowProps {
  trans: TranslationBundle;
  onAdd: (row: IGrantRow) => void;
}

/** The largest number of chips: six digits fit into the field. */
const MOST_CHIPS = 999_999;

function NewRow({ trans, onAdd }: INewRowProps): JSX.Element {
  const id = useId();
  const [chips, setChips] = useState('');
  const [generation, setGeneration] = useState('');
  const [zone, setZone] = useState('');
  const [spot, setSpot] = useState(true);
  const isCount = /^[1-9]\d{0,5}$/.test(chips);
  const isWhole = isCount && generation !== '' && zone !== '';
  return (
    <div role="group" aria-label={messages.newRow(trans)} className="jp-tpu-Rows-new">
      <div className="jp-tpu-Pair">
        <TextField
          label={messages.chips(trans)}
          value={chips}
          error={chips && !isCount ? common.useWholeNumberFrom(1, MOST_CHIPS, trans) : ''}
          onChange={text => setChips(text.trim())}
        />
        <TextField
          label={common.generation(trans)}
          note={messages.generationNote(trans)}
          value={generation}
          onChange={text => setGeneration(text.trim())}
        />
      </div>
      <TextField
        label={common.zone(trans)}
        note={messages.zoneNote(trans)}
        value={zone}
        onChange={text => setZone(text.trim())}
      />
      <div className="jp-tpu-Check">
        <input
          id={id}
          type="checkbox"
          checked={spot}
          onChange={event => setSpot(event.target.checked)}
        />
        <label htmlFor={id}>{messages.spot(trans)}</label>
      </div>
      <div className="jp-tpu-Actions">
        <Button
          isOff={!isWhole}
          onClick={() => {
            onAdd({ chips: Number(chips), generation, zone, spot });
            // a second click would add another row
            setChips('');
            setGeneration('');
            setZone('');
          }}
        >
          {messages.addRow(trans)}
        </Button>
      </div>
    </div>
  );
}
