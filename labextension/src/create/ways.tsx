import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';
import { IOffers } from '../api.generated';
import { Check, Select, TextField } from '../components/field';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { INodeSpec } from '../tokens';
import {
  candidateKey,
  candidatesFor,
  hasUnknownPrice,
  isAccepted,
  IWayDraft,
  runTime,
  Way,
  wayOf
} from './draft';
import { termsOf } from './offers';

interface IProps {
  offers: IOffers;
  spec: INodeSpec;
  draft: IWayDraft;
  trans: TranslationBundle;
  onChange: (part: Partial<IWayDraft>) => void;
}

/** How to get the node, and the options of each way. */
export function Ways(props: IProps): JSX.Element {
  const { offers, spec, draft, trans, onChange } = props;
  const id = useId();
  const chosen = wayOf(spec, draft);
  const all: [Way, string][] = [
    ['now', messages.createNow(trans)],
    ['search', messages.searchWay(trans)],
    ['queue', messages.queueWay(trans)]
  ];
  const isFlexStart = termsOf(spec) === 'flex-start';
  const ways = all.filter(([way]) => way === 'queue' || !isFlexStart);
  return (
    <>
      <fieldset className="jp-tpu-Choice">
        <legend>{messages.howToGetIt(trans)}</legend>
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
        <TextField
          label={messages.reservation(trans)}
          note={messages.reservationNote(trans)}
          value={draft.reservation}
          onChange={reservation => onChange({ reservation })}
        />
      )}
      {chosen === 'now' && isPreemptible(spec) && (
        <Check
          label={common.recreate(trans)}
          checked={draft.recreate}
          onChange={recreate => onChange({ recreate })}
        />
      )}
      {hasUnknownPrice(offers, spec, draft) && (
        <Check
          label={messages.acceptUnknownPrice(trans)}
          checked={draft.acceptsUnknownPrice}
          onChange={acceptsUnknownPrice => onChange({ acceptsUnknownPrice })}
        />
      )}
    </>
  );
}

/** Whether such a node can be pre-empted, and so recreated. */
export function isPreemptible(spec: INodeSpec): boolean {
  return ['spot', 'preemptible'].includes(termsOf(spec));
}

/** The zones and types to search. */
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
        <legend>{messages.acceptAnyOf(trans)}</legend>
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
      <TextField
        label={messages.keepTryingFor(trans)}
        note={messages.tryEachOnce(trans)}
        value={draft.minutes}
        error={isMinutes(draft.minutes) ? '' : common.useWholeNumber(trans)}
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
      label={messages.giveUpAfter(trans)}
      note={messages.queueBilling(trans)}
      value={String(draft.validFor_s)}
      onChange={value => onChange({ validFor_s: Number(value) })}
    >
      {HOURS.map(hours => (
        <option key={hours} value={hours * 3600}>
          {messages.hours(hours, trans)}
        </option>
      ))}
    </Select>
  );
}

function RunTime({ draft, trans, onChange }: IProps): JSX.Element {
  return (
    <TextField
      label={messages.runFor(trans)}
      note={messages.runForNote(trans)}
      value={draft.runHours}
      error={runTime(draft) === null ? messages.useNumberUpTo168(trans) : ''}
      onChange={runHours => onChange({ runHours })}
    />
  );
}
