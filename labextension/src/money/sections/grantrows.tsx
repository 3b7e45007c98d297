import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { Button } from '../../components/button';
import { IGrantRow } from '../grantrecords';
import { formatGrantRow } from '../words';
import { Text } from './budgetform';

interface IProps {
  rows: readonly IGrantRow[];
  trans: TranslationBundle;
  onChange: (rows: readonly IGrantRow[]) => void;
}

/** The rows of a grant, each of which can be taken out, and one more added. */
export function GrantRows({ rows, trans, onChange }: IProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      {rows.length > 0 && (
        <ul className="jp-tpu-Items" aria-label={trans.__('Rows of the grant')}>
          {rows.map((row, index) => {
            const text = formatGrantRow(row, trans);
            return (
              <li key={index} className="jp-tpu-Split">
                <span className="jp-tpu-Grow">{text}</span>
                <Button
                  aria-label={trans.__('Take out %1', text)}
                  onClick={() => onChange(rows.filter((_, other) => other !== index))}
                >
                  {trans.__('Take out')}
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
          <Button onClick={() => setAsking(true)}>{trans.__('Add a row by hand')}</Button>
        </div>
      )}
    </>
  );
}

interface INewRowProps {
  trans: TranslationBundle;
  onAdd: (row: IGrantRow) => void;
}

function NewRow({ trans, onAdd }: INewRowProps): JSX.Element {
  const id = useId();
  const [chips, setChips] = useState('');
  const [generation, setGeneration] = useState('');
  const [zone, setZone] = useState('');
  const [spot, setSpot] = useState(true);
  const isWhole = /^[1-9]\d{0,5}$/.test(chips) && generation !== '' && zone !== '';
  return (
    <div role="group" aria-label={trans.__('A row by hand')} className="jp-tpu-Rows-new">
      <div className="jp-tpu-Pair">
        <Text label={trans.__('Chips')} value={chips} onChange={text => setChips(text.trim())} />
        <Text
          label={trans.__('Generation')}
          note={trans.__('such as v5e')}
          value={generation}
          onChange={text => setGeneration(text.trim())}
        />
      </div>
      <Text
        label={trans.__('Zone')}
        note={trans.__('such as us-central1-a')}
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
        <label htmlFor={id}>{trans.__('spot')}</label>
      </div>
      <div className="jp-tpu-Actions">
        <Button
          isOff={!isWhole}
          onClick={() => onAdd({ chips: Number(chips), generation, zone, spot })}
        >
          {trans.__('Add the row')}
        </Button>
      </div>
    </div>
  );
}
