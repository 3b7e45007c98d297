import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';
import { Check, Select } from '../../components/field';
import { termsOf } from '../../offers';
import { INodeSpec, IOffers } from '../../tokens';
import { Text } from '../sections/budgetform';
import {
  candidateKey,
  candidatesFor,
  hasUnknownPrice,
  isAccepted,
  IWayDraft,
  runTime,
  Way,
  wayOf
} from './getting';

interface IProps {
  offers: IOffers;
  spec: INodeSpec;
  draft: IWayDraft;
  trans: TranslationBundle;
  onChange: (part: Partial<IWayDraft>) => void;
}

/** How the node is to be had, and what each way needs to know. */
export function Ways(props: IProps): JSX.Element {
  const { offers, spec, draft, trans, onChange } = props;
  const id = useId();
  const chosen = wayOf(spec, draft);
  const all: [Way, string][] = [
    ['now', trans.__('Create it now')],
    ['search', trans.__('Search until one is found')],
    ['queue', trans.__('Queue until there is room')]
  ];
  const isFlexStart = termsOf(spec) === 'flex-start';
  const ways = all.filter(([way]) => way === 'queue' || !isFlexStart);
  return (
    <>
      <fieldset className="jp-tpu-Choice">
        <legend>{trans.__('How to get it')}</legend>
        {ways.map(([way, label]) => (
          <div key={way} className="jp-tpu-Check">
            <input
              id={`${id}-${way}`}
              type="radio"
              name={id}
              checked={chosen === way}
              onChange={() => onChange({ way })}
            />
            <label htmlFor={`${id}-${way}`}>{label}</label>
          </div>
        ))}
      </fieldset>
      {chosen === 'search' && <Search {...props} />}
      {chosen === 'queue' && <Queue {...props} />}
      {isFlexStart && <RunTime {...props} />}
      {chosen === 'queue' && termsOf(spec) === 'reserved' && (
        <Text
          label={trans.__('Reservation')}
          note={trans.__('Its id; empty: any that fits')}
          value={draft.reservation}
          onChange={reservation => onChange({ reservation })}
        />
      )}
      {chosen === 'now' && mayBeTakenBack(spec) && (
        <Check
          label={trans.__('Recreate it after a pre-emption')}
          checked={draft.again}
          onChange={again => onChange({ again })}
        />
      )}
      {hasUnknownPrice(offers, spec, draft) && (
        <Check
          label={trans.__('Take it though its price is not known')}
          checked={draft.acceptsUnknownPrice}
          onChange={acceptsUnknownPrice => onChange({ acceptsUnknownPrice })}
        />
      )}
    </>
  );
}

/** Such a node can be made again by itself. */
export function mayBeTakenBack(spec: INodeSpec): boolean {
  return ['spot', 'preemptible'].includes(termsOf(spec));
}

/** The zones and types that the user would accept. */
function Search({ offers, spec, draft, trans, onChange }: IProps): JSX.Element {
  const toggle = (key: string): void => {
    const toggled = new Set(draft.toggled);
    if (!toggled.delete(key)) {
      toggled.add(key);
    }
    onChange({ toggled });
  };
  return (
    <>
      <fieldset className="jp-tpu-Choice">
        <legend>{trans.__('Accept any of these, the cheapest first')}</legend>
        <div className="jp-tpu-Candidates">
          {candidatesFor(offers, spec).map(candidate => {
            const key = candidateKey(candidate);
            return (
              <Check
                key={key}
                label={`${candidate.accelerator_type} · ${candidate.zone}`}
                checked={isAccepted(candidate, spec, draft)}
                onChange={() => toggle(key)}
              />
            );
          })}
        </div>
      </fieldset>
      <Text
        label={trans.__('Keep trying for (minutes)')}
        note={trans.__('Empty: try each of them once')}
        value={draft.minutes}
        complaint={isMinutes(draft.minutes) ? '' : trans.__('Use a whole number.')}
        onChange={minutes => onChange({ minutes })}
      />
    </>
  );
}

export function isMinutes(text: string): boolean {
  return /^\d{0,5}$/.test(text.trim());
}

const HOURS = [1, 6, 24, 168];

function Queue({ draft, trans, onChange }: IProps): JSX.Element {
  return (
    <Select
      label={trans.__('Give up after')}
      note={trans.__('It is billed from the moment it is there.')}
      value={String(draft.validFor_s)}
      onChange={value => onChange({ validFor_s: Number(value) })}
    >
      {HOURS.map(hours => (
        <option key={hours} value={hours * 3600}>
          {trans._n('%1 hour', '%1 hours', hours)}
        </option>
      ))}
    </Select>
  );
}

function RunTime({ draft, trans, onChange }: IProps): JSX.Element {
  return (
    <Text
      label={trans.__('Run for (hours)')}
      note={trans.__('The cloud itself deletes it so long after it became READY.')}
      value={draft.runHours}
      complaint={runTime(draft) === null ? trans.__('Use a number up to 168.') : ''}
      onChange={runHours => onChange({ runHours })}
    />
  );
}
