import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IOffer, IQuotasAfter, Provisioning } from '../api.generated';
import { Check, options, Select, TextField } from '../components/field';
import { priceOf } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { constantText } from '../messages/problems';
import { formatPriceSource } from '../messages/units';
import { INodeSpec } from '../tokens';
import { IAnswer } from './answer';
import { IWayDraft } from './draft';
import { termsOf, withTerms } from './offers';
import { Quotas } from './quotas';

interface IProps {
  offer: IOffer | undefined;
  spec: INodeSpec;
  /** Why the name is invalid; empty if it is not. */
  nameError: string;
  /** Whether the cloud has a queue; only queued requests can get flex-start nodes. */
  canQueue: boolean;
  /** The quota after the choice; undefined where costs are unknown. */
  quota?: IAnswer<IQuotasAfter>;
  notCovered: readonly string[];
  isOpen: boolean;
  trans: TranslationBundle;
  onToggle: (isOpen: boolean) => void;
  onChange: (part: Partial<INodeSpec>) => void;
  onDraft: (part: Partial<IWayDraft>) => void;
  /** The fields that depend on how the node is created. */
  children?: React.ReactNode;
}

/** The optional fields of the form; each has a sensible default. */
export function More(props: IProps): JSX.Element {
  const { offer, spec, nameError, quota, notCovered, isOpen, trans, onToggle, onChange } = props;
  return (
    <details
      className="jp-tpu-More"
      open={isOpen}
      onToggle={event => onToggle(event.currentTarget.open)}
    >
      <summary>{messages.more(trans)}</summary>
      <TextField
        label={common.name(trans)}
        error={nameError}
        value={spec.node_id}
        onChange={value => onChange({ node_id: value.trim() })}
      />
      <Select
        label={common.runtimeVersion(trans)}
        value={spec.runtime_version}
        onChange={runtime_version => onChange({ runtime_version })}
      >
        {options(offer?.runtime_versions ?? [])}
      </Select>
      <Model {...props} />
      <Check
        label={messages.internalOnly(trans)}
        note={spec.internal_ips ? messages.internalOnlyNote(trans) : undefined}
        checked={spec.internal_ips ?? false}
        onChange={internal_ips => onChange({ internal_ips })}
      />
      {props.children}
      {quota && <Quotas answer={quota} trans={trans} />}
      {offer && (
        <div className="jp-tpu-Muted">
          {formatPriceSource(priceOf(offer, termsOf(spec)), trans)}
        </div>
      )}
      {notCovered.length > 0 && (
        <div className="jp-tpu-Muted">
          {messages.notIncluded(trans)}
          <ul>
            {notCovered.map(text => (
              <li key={text}>{constantText(text, trans)}</li>
            ))}
          </ul>
        </div>
      )}
    </details>
  );
}

/** The provisioning models that are not offered among the terms above. */
function Model({ spec, canQueue, trans, onChange, onDraft }: IProps): JSX.Element {
  const all: Provisioning[] = ['on-demand', 'spot', 'preemptible', 'reserved', 'flex-start'];
  return (
    <Select
      label={messages.provisioningModel(trans)}
      value={termsOf(spec)}
      note={messages.termsNote(termsOf(spec), trans)}
      onChange={chosen => {
        onChange(withTerms(chosen as Provisioning));
        onDraft(chosen === 'flex-start' ? { way: 'queue' } : {});
      }}
    >
      {all
        .filter(model => canQueue || model !== 'flex-start')
        .map(model => (
          <option key={model} value={model}>
            {messages.termsName(model, trans)}
          </option>
        ))}
    </Select>
  );
}
