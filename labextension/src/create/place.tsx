import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IOffers, Provisioning } from '../api.generated';
import { Select } from '../components/field';
import { priceOf } from '../format';
import * as messages from '../messages/create';
import { capacityHint, placeLabel, priceLabel } from '../messages/create';
import { INodeSpec } from '../tokens';
import { Way } from './draft';
import { IPlace, placesOf, termsOf } from './offers';

/** The value of “Anywhere” in the list of zones; no zone has this name. */
const ANYWHERE = '';

interface IWhereProps {
  offers: IOffers;
  spec: INodeSpec;
  way: Way;
  /** Zones that did not respond to the last request. */
  unreachable: readonly string[];
  /** Whether a search is possible. */
  canSearch: boolean;
  trans: TranslationBundle;
  onChange: (zone: string | null) => void;
}

/** The field for the zone, with a hint about past creations; for a search it means all zones. */
export function Where(props: IWhereProps): JSX.Element {
  const { offers, spec, way, canSearch, trans, onChange } = props;
  const places = placesOf(offers, spec.accelerator_type);
  return (
    <Select
      label={messages.where(trans)}
      note={hintOf(props, places)}
      value={way === 'search' ? ANYWHERE : spec.zone}
      onChange={value => onChange(value === ANYWHERE ? null : value)}
    >
      {places.map(({ zone, offer }) => (
        <option key={zone} value={zone}>
          {placeLabel(zone, offer, termsOf(spec), trans)}
        </option>
      ))}
      {canSearch && <option value={ANYWHERE}>{messages.anywhere(trans)}</option>}
    </Select>
  );
}

function hintOf(props: IWhereProps, places: readonly IPlace[]): string {
  const { spec, way, unreachable, trans } = props;
  if (way === 'search') {
    return messages.searchHint(trans);
  }
  if (unreachable.includes(spec.zone)) {
    return messages.zoneSilent(trans);
  }
  const offer = places.find(({ zone }) => zone === spec.zone)?.offer;
  return offer ? capacityHint(offer, trans) : '';
}

interface ITermsProps {
  offers: IOffers;
  spec: INodeSpec;
  way: Way;
  canQueue: boolean;
  trans: TranslationBundle;
  onChange: (terms: Provisioning | 'queue') => void;
}

/** The terms: on demand, spot or queued, each with its price, and any other model that was chosen below. */
export function Terms({ offers, spec, way, canQueue, trans, onChange }: ITermsProps): JSX.Element {
  const model = termsOf(spec);
  const isUsual = model === 'on-demand' || model === 'spot' || way === 'queue';
  const choices: (Provisioning | 'queue')[] = [
    'on-demand',
    'spot',
    ...(isUsual ? [] : [model]),
    ...(canQueue ? ['queue' as const] : [])
  ];
  const offer = placesOf(offers, spec.accelerator_type).find(
    ({ zone }) => zone === spec.zone
  )?.offer;
  const chosen = way === 'queue' ? 'queue' : model;
  const price = (terms: Provisioning | 'queue'): string => {
    const priced = terms === 'queue' ? model : terms;
    return offer?.covered.includes(priced)
      ? messages.free(trans)
      : priceLabel((offer && priceOf(offer, priced)?.usd_per_hour) ?? null, trans);
  };
  return (
    <div className="jp-tpu-Field">
      <div className="jp-tpu-Terms" role="radiogroup" aria-label={messages.terms(trans)}>
        {choices.map(terms => (
          <label key={terms} title={messages.termsNote(terms, trans)}>
            <input
              type="radio"
              name="terms"
              checked={terms === chosen}
              onChange={() => onChange(terms)}
            />
            <span>{messages.termsName(terms, trans)}</span>
            <span className="jp-tpu-Terms-price">{price(terms)}</span>
          </label>
        ))}
      </div>
      {chosen !== 'on-demand' && (
        <div className="jp-tpu-Muted">{messages.termsNote(chosen, trans)}</div>
      )}
    </div>
  );
}
