import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { INodeList, IOffer, IOffers, Provisioning } from '../api.generated';
import { Button } from '../components/button';
import { Check, Field, options, Select } from '../components/field';
import { Problem } from '../components/problem';
import { scrollToCenter } from '../components/scroll';
import { useRequest } from '../components/userequest';
import { checkName, suggestName } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { submitLabel } from '../messages/create';
import { formatSize } from '../messages/units';
import { IFormRequest, INodeSpec } from '../tokens';
import { ChoiceNotice } from './choicenotice';
import {
  hasUnknownPrice,
  ICreateActions,
  IWayDraft,
  nowTerms,
  queueTerms,
  runTime,
  searchTerms,
  WAY_DRAFT,
  wayOf
} from './draft';
import { byGeneration, fitSpec, offerOf, offersIn, suggestSpec, termsOf } from './offers';
import { PriceNotice } from './price';
import { isMinutes, isPreemptible, Ways } from './ways';

interface IProps {
  offers: IOffers;
  /** The existing nodes, whose names are taken. */
  list: INodeList | null;
  emulated: boolean;
  /** What to start with instead of the server's suggestion. */
  request?: IFormRequest | null;
  trans: TranslationBundle;
  /** Search and queue, and the cost of a choice; absent where that plugin is disabled. */
  createActions?: ICreateActions;
  /** Resolves when the request is accepted, rejects with the error to show. */
  onCreate: (spec: INodeSpec) => Promise<void>;
  onCancel: () => void;
}

/** The form for a new node; shows its cost before anything is created. */
export function CreateForm(props: IProps): JSX.Element {
  const { offers, list, emulated, request, trans, createActions, onCancel } = props;
  const heading = useId();
  const [spec, setSpec] = useState(() =>
    fitSpec(offers, { ...suggestSpec(offers, suggestName(list)), ...request?.spec })
  );
  const change = (part: Partial<INodeSpec>): void => setSpec(fitSpec(offers, { ...spec, ...part }));
  const error = checkName(spec, list, trans);
  const [draft, setDraft] = useState({ ...WAY_DRAFT, way: request?.way ?? WAY_DRAFT.way });
  const { isSending, problem, send } = useRequest();
  const offer = offerOf(offers, spec);
  const isUnasked = Boolean(createActions) && hasUnknownPrice(offers, spec, draft);
  const isPriced = !isUnasked || draft.acceptsUnknownPrice;
  const isTimed = termsOf(spec) !== 'flex-start' || runTime(draft) !== null;
  const isWhole = !error && isMinutes(draft.minutes) && isPriced && isTimed;
  return (
    <form
      className="jp-tpu-Form"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (isWhole) {
          send(() => submit(props, spec, draft));
        } else {
          focusFirstError(event.currentTarget);
        }
      }}
    >
      <h3 id={heading}>{common.createNode(trans)}</h3>
      <NameField value={spec.node_id} error={error} trans={trans} onChange={change} />
      <PlaceFields offers={offers} spec={spec} offer={offer} trans={trans} onChange={change} />
      <TermsField
        value={termsOf(spec)}
        canQueue={Boolean(createActions)}
        trans={trans}
        onChange={change}
      />
      <Check
        label={messages.internalOnly(trans)}
        note={spec.internal_ips ? messages.internalOnlyNote(trans) : undefined}
        checked={spec.internal_ips ?? false}
        onChange={internal_ips => change({ internal_ips })}
      />
      {createActions && (
        <Ways
          offers={offers}
          spec={spec}
          draft={draft}
          trans={trans}
          onChange={part => setDraft({ ...draft, ...part })}
        />
      )}
      {offer && !createActions && (
        <PriceNotice offer={offer} provisioning={termsOf(spec)} emulated={emulated} trans={trans} />
      )}
      {offer && createActions && (
        <ChoiceNotice
          choice={{ ...spec, provisioning: termsOf(spec) }}
          offer={offer}
          emulated={emulated}
          actions={createActions}
          trans={trans}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} />}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onCancel}>{common.cancel(trans)}</Button>
        <Button kind="accept" type="submit" disabled={isSending || !offer || !isPriced}>
          {submitLabel(wayOf(spec, draft), isSending, trans)}
        </Button>
      </div>
    </form>
  );
}

/** The button may be far below the invalid field. */
function focusFirstError(form: HTMLElement): void {
  const control = form.querySelector<HTMLElement>('[aria-invalid="true"]');
  control?.focus();
  // with its label and error
  scrollToCenter(control?.closest('.jp-tpu-Field'));
}

/** Create, search for or queue for the node, as chosen. */
async function submit(props: IProps, spec: INodeSpec, draft: IWayDraft): Promise<void> {
  const { offers, createActions, onCreate, onCancel } = props;
  const way = wayOf(spec, draft);
  if (createActions && way === 'search') {
    await createActions.onSearch(searchTerms(offers, spec, draft));
    return onCancel();
  }
  if (createActions && way === 'queue') {
    await createActions.onQueue(queueTerms(spec, draft));
    return onCancel();
  }
  await onCreate(nowTerms(spec, draft));
  if (draft.recreate && isPreemptible(spec)) {
    createActions?.onRecover(spec);
  }
}

interface IPartProps<T> {
  value: T;
  trans: TranslationBundle;
  onChange: (part: Partial<INodeSpec>) => void;
}

function NameField(props: IPartProps<string> & { error: string }): JSX.Element {
  const { value, error, trans, onChange } = props;
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  return (
    <Field label={common.name(trans)} error={error}>
      {attributes => (
        <input
          ref={input}
          className="jp-mod-styled"
          type="text"
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={event => onChange({ node_id: event.target.value.trim() })}
          {...attributes}
        />
      )}
    </Field>
  );
}

interface IPlaceProps {
  offers: IOffers;
  spec: INodeSpec;
  offer: IOffer | undefined;
  trans: TranslationBundle;
  onChange: (part: Partial<INodeSpec>) => void;
}

/** Zone, type and runtime version: each limits the next. */
function PlaceFields({ offers, spec, offer, trans, onChange }: IPlaceProps): JSX.Element {
  return (
    <>
      <Select label={common.zone(trans)} value={spec.zone} onChange={zone => onChange({ zone })}>
        {options(Object.keys(offers.zones))}
      </Select>
      <Select
        label={messages.acceleratorType(trans)}
        value={spec.accelerator_type}
        note={offer && (offer.description || formatSize(offer, trans))}
        onChange={accelerator_type => onChange({ accelerator_type })}
      >
        {byGeneration(offersIn(offers, spec.zone)).map(([generation, group]) => (
          <optgroup key={generation} label={generation}>
            {options(group.map(one => one.accelerator_type))}
          </optgroup>
        ))}
      </Select>
      <Select
        label={common.runtimeVersion(trans)}
        value={spec.runtime_version}
        onChange={runtime_version => onChange({ runtime_version })}
      >
        {options(offer?.runtime_versions ?? [])}
      </Select>
    </>
  );
}

interface ITermsProps {
  value: Provisioning;
  /** Whether there is a queue, the only source of flex-start nodes. */
  canQueue: boolean;
  trans: TranslationBundle;
  onChange: (part: Partial<INodeSpec>) => void;
}

function TermsField({ value, canQueue, trans, onChange }: ITermsProps): JSX.Element {
  const all: [Provisioning, string, string][] = [
    ['on-demand', messages.onDemand(trans), messages.onDemandNote(trans)],
    ['spot', messages.spot(trans), messages.spotNote(trans)],
    ['preemptible', messages.preemptible(trans), messages.preemptibleNote(trans)],
    ['reserved', messages.reserved(trans), messages.reservedNote(trans)],
    ['flex-start', messages.flexStart(trans), messages.flexStartNote(trans)]
  ];
  const choices = all.filter(([terms]) => canQueue || terms !== 'flex-start');
  return (
    <Select
      label={messages.provisioningModel(trans)}
      value={value}
      note={choices.find(([terms]) => terms === value)?.[2]}
      onChange={chosen => {
        const provisioning = chosen as Provisioning;
        onChange({ provisioning, spot: provisioning === 'spot' });
      }}
    >
      {choices.map(([terms, label]) => (
        <option key={terms} value={terms}>
          {label}
        </option>
      ))}
    </Select>
  );
}
