import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IOffers } from '../api.generated';
import { Check, Select, TextField } from '../components/field';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { INodeSpec } from '../tokens';
import { candidateKey, candidatesFor, isAccepted, IWayDraft, runTime, wayOf } from './draft';
import { termsOf } from './offers';

interface IProps {
  offers: IOffers;
  spec: INodeSpec;
  draft: IWayDraft;
  trans: TranslationBundle;
  onChange: (part: Partial<IWayDraft>) => void;
}

/** The options for how the node is created: now, by a search or from the queue. */
export function Ways(props: IProps): JSX.Element {
  const { spec, draft, trans, onChange } = props;
  const way = wayOf(spec, draft);
  return (
    <>
      {way === 'search' && <Search {...props} />}
      {way === 'queue' && <Queue {...props} />}
      {termsOf(spec) === 'flex-start' && <RunTime {...props} />}
      {way === 'queue' && termsOf(spec) === 'reserved' && (
        <TextField
          label={messages.reservation(trans)}
          note={messages.reservationNote(trans)}
          value={draft.reservation}
          onChange={reservation => onChange({ reservation })}
        />
      )}
      {way === 'now' && isPreemptible(spec) && (
        <Check
          label={common.recreate(trans)}
          checked={draft.recreate}
          onChange={recreate => onChange({ recreate })}
        />
      )}
    </>
  );
}

/** Whether such a node can be pre-empted, and therefore be recreated automatically. */
export function isPreemptible(spec: INodeSpec): boolean {
  return ['spot', 'preemptible'].includes(termsOf(spec));
}

/** The zones and types that a search includes. */
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
      <fieldset className="jp-tpu-Accepted">
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
        error={isMinutes(draft.minutes) ? '' : common.useWholeNumberFrom(0, MOST_MINUTES, trans)}
        onChange={minutes => onChange({ minutes })}
      />
    </>
  );
}

/** The longest search, in minutes: five digits fit into the field. */
const MOST_MINUTES = 99_999;

export function isMinutes(text: string): boolean {
  return /^\d{0,5}$/.test(text.trim());
}

const HOURS = [1, 6, 24, 168];

function Queue({ draft, trans, onChange }: IProps): JSX.Element {
  return (
    <Select
      label={messages.giveUpAfter(trans)}
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
      error={runTime(draft) === null ? messages.enterRunHours(trans) : ''}
      onChange={runHours => onChange({ runHours })}
    />
  );
}
