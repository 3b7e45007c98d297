import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { IOffers } from '../../api.generated';
import { Button } from '../../components/button';
import { Field, options, Select } from '../../components/field';
import * as common from '../../messages/common';
import * as messages from '../../messages/simulator';
import { countOf, isCount, MOST_COUNT } from '../faults';
import { ICardProps } from '../page';
import { ICapacity } from '../records';
import { Card, Rows } from './card';

/** Capacity of the zones by generation; zero chips simulate a stock-out. */
export function CapacityCard({ cloud, offers, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.capacity(trans)}>
      <Rows
        label={messages.limitedZones(trans)}
        empty={messages.unlimitedEverywhere(trans)}
        items={cloud.capacity.filter(({ chips }) => chips !== null)}
        keyOf={({ zone, family }) => `${zone} ${family}`}
        trans={trans}
      >
        {capacity => <Limited {...{ capacity, actions, trans }} />}
      </Rows>
      {offers && <CapacityForm {...{ offers, actions, trans }} />}
    </Card>
  );
}

type ILimitedProps = Pick<ICardProps, 'actions' | 'trans'> & { capacity: ICapacity };

function Limited({ capacity, actions, trans }: ILimitedProps): JSX.Element {
  const { zone, family } = capacity;
  return (
    <div className="jp-tpu-Row">
      <span className="jp-tpu-Row-text">
        <strong>{common.inPlace(family, zone, trans)}</strong> · {roomOf(capacity, trans)}
      </span>
      <Button
        aria-label={messages.removeLimitOf(family, zone, trans)}
        onClick={() => actions.onSetCapacity({ zone, family, chips: null })}
      >
        {common.remove(trans)}
      </Button>
    </div>
  );
}

function roomOf({ chips, used }: ICapacity, trans: TranslationBundle): string {
  if (!chips) {
    return messages.stockOut(trans);
  }
  return used === undefined
    ? messages.chips(chips, trans)
    : messages.chipsInUse(used, chips, trans);
}

type IFormProps = Pick<ICardProps, 'actions' | 'trans'> & { offers: IOffers };

function CapacityForm({ offers, actions, trans }: IFormProps): JSX.Element {
  const [zone, setZone] = useState(offers.default.zone);
  const [requested, setFamily] = useState(() => defaultFamily(offers));
  const [chips, setChips] = useState('');
  const families = familiesIn(offers, zone);
  const family = families.includes(requested) ? requested : (families[0] ?? '');
  const isWrong = !isCount(chips);
  const isOff = isWrong || chips.trim() === '' || !family;
  return (
    <form
      aria-label={messages.limitZone(trans)}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!isOff) {
          actions.onSetCapacity({ zone, family, chips: countOf(chips) });
        }
      }}
    >
      <Select label={common.zone(trans)} value={zone} onChange={setZone}>
        {options(Object.keys(offers.zones))}
      </Select>
      <Select label={common.generation(trans)} value={family} onChange={setFamily}>
        {options(families)}
      </Select>
      <Field
        label={messages.totalChips(trans)}
        note={messages.chipsNote(trans)}
        error={isWrong ? common.useWholeNumberFrom(0, MOST_COUNT, trans) : ''}
      >
        {attributes => (
          <input
            className="jp-mod-styled"
            inputMode="numeric"
            autoComplete="off"
            placeholder={messages.noLimit(trans)}
            value={chips}
            onChange={event => setChips(event.target.value)}
            {...attributes}
          />
        )}
      </Field>
      <div className="jp-tpu-Actions">
        <Button kind="accept" type="submit" isOff={isOff}>
          {messages.setCapacity(trans)}
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
