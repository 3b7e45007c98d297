import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Field, options, Select } from '../../components/field';
import { IOffers } from '../../tokens';
import { ICardProps } from '../page';
import { ICapacity } from '../records';
import { countOf, isCount } from '../words';
import { Card, Rows } from './card';

/** Chips that the zones have, by generation: no chips is a stock-out. */
export function CapacityCard({ cloud, offers, acts, trans }: ICardProps): JSX.Element {
  return (
    <Card title={trans.__('Capacity')}>
      <Rows
        label={trans.__('Zones with limited capacity')}
        empty={trans.__('Every zone has room for everything.')}
        items={cloud.capacity.filter(({ chips }) => chips !== null)}
        keyOf={({ zone, family }) => `${zone} ${family}`}
        trans={trans}
      >
        {capacity => <Limited {...{ capacity, acts, trans }} />}
      </Rows>
      {offers && <CapacityForm {...{ offers, acts, trans }} />}
    </Card>
  );
}

type ILimitedProps = Pick<ICardProps, 'acts' | 'trans'> & { capacity: ICapacity };

function Limited({ capacity, acts, trans }: ILimitedProps): JSX.Element {
  const { zone, family } = capacity;
  return (
    <div className="jp-tpu-Row">
      <span className="jp-tpu-Row-text">
        <strong>{trans.__('%1 in %2', family, zone)}</strong> · {roomOf(capacity, trans)}
      </span>
      <Button
        aria-label={trans.__('Lift the limit of %1 in %2', family, zone)}
        onClick={() => acts.onSetCapacity({ zone, family, chips: null })}
      >
        {trans.__('Lift')}
      </Button>
    </div>
  );
}

function roomOf({ chips, used }: ICapacity, trans: TranslationBundle): string {
  if (!chips) {
    return trans.__('stock-out');
  }
  return used === undefined
    ? trans._n('%1 chip', '%1 chips', chips)
    : trans.__('%1 of %2 chips in use', used, chips);
}

type IFormProps = Pick<ICardProps, 'acts' | 'trans'> & { offers: IOffers };

function CapacityForm({ offers, acts, trans }: IFormProps): JSX.Element {
  const [zone, setZone] = useState(offers.default.zone);
  const [wanted, setFamily] = useState(() => defaultFamily(offers));
  const [chips, setChips] = useState('0');
  const families = familiesIn(offers, zone);
  const family = families.includes(wanted) ? wanted : (families[0] ?? '');
  const isWrong = !isCount(chips);
  return (
    <form
      aria-label={trans.__('Limit the capacity of a zone')}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!isWrong) {
          acts.onSetCapacity({ zone, family, chips: countOf(chips) });
        }
      }}
    >
      <Select label={trans.__('Zone')} value={zone} onChange={setZone}>
        {options(Object.keys(offers.zones))}
      </Select>
      <Select label={trans.__('Generation')} value={family} onChange={setFamily}>
        {options(families)}
      </Select>
      <Field
        label={trans.__('Chips in all')}
        note={trans.__('0 is a stock-out; empty is without limit.')}
        complaint={isWrong ? trans.__('Write a whole number.') : ''}
      >
        {attributes => (
          <input
            className="jp-mod-styled"
            inputMode="numeric"
            autoComplete="off"
            value={chips}
            onChange={event => setChips(event.target.value)}
            {...attributes}
          />
        )}
      </Field>
      <div className="jp-tpu-Actions">
        <Button kind="accept" type="submit" isOff={!family}>
          {trans.__('Set capacity')}
        </Button>
      </div>
    </form>
  );
}

function defaultFamily({ zones, default: { zone, accelerator_type } }: IOffers): string {
  const offer = zones[zone]?.find(one => one.accelerator_type === accelerator_type);
  return offer?.generation ?? '';
}

function familiesIn(offers: IOffers, zone: string): string[] {
  return [...new Set((offers.zones[zone] ?? []).map(({ generation }) => generation))];
}
