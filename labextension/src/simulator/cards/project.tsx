import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import React, { useId, useState } from 'react';
import { Button } from '../../components/button';
import { Field } from '../../components/field';
import * as messages from '../../messages/simulator';
import { countOf, isCount, wordsOf } from '../faults';
import { ICardProps } from '../page';
import { ISwitches } from '../records';
import { Card } from './card';

/** Permissions and limits of the project. */
export function ProjectCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  const id = useId();
  const { api_enabled } = cloud.switches;
  return (
    <Card title={messages.project(trans)}>
      <div className="jp-tpu-Check">
        <input
          id={id}
          type="checkbox"
          checked={api_enabled}
          onChange={event => actions.onSetProject({ api_enabled: event.target.checked })}
        />
        <label htmlFor={id}>{messages.apiEnabled(trans)}</label>
      </div>
      {/* a new key shows what another page has set; a poll that changes nothing keeps half-written text */}
      <LimitsForm
        key={JSON.stringify(draftsOf(cloud.switches))}
        {...{ actions, trans, switches: cloud.switches }}
      />
    </Card>
  );
}

type IFormProps = Pick<ICardProps, 'actions' | 'trans'> & { switches: ISwitches };

type Drafts = { readonly [name in keyof Omit<ISwitches, 'api_enabled'>]: string };

function LimitsForm({ switches, actions, trans }: IFormProps): JSX.Element {
  const known = draftsOf(switches);
  const [drafts, setDrafts] = useState(known);
  const isChanged = JSON.stringify(drafts) !== JSON.stringify(known);
  const isWrong = !isCount(drafts.addresses_per_region) || !isCount(drafts.creates_per_minute);
  return (
    <form
      aria-label={messages.projectLimits(trans)}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (isChanged && !isWrong) {
          actions.onSetProject(changeOf(drafts));
        }
      }}
    >
      {fieldsOf(trans).map(({ name, label, note, isNumber }) => (
        <Field
          key={name}
          label={label}
          note={note}
          error={isNumber && !isCount(drafts[name]) ? messages.useCountOrEmpty(trans) : ''}
        >
          {attributes => (
            <input
              className="jp-mod-styled"
              inputMode={isNumber ? 'numeric' : 'text'}
              autoComplete="off"
              spellCheck={false}
              value={drafts[name]}
              onChange={event => setDrafts({ ...drafts, [name]: event.target.value })}
              {...attributes}
            />
          )}
        </Field>
      ))}
      <div className="jp-tpu-Actions">
        <Button type="submit" isOff={!isChanged || isWrong}>
          {messages.setLimits(trans)}
        </Button>
      </div>
    </form>
  );
}

interface IField {
  readonly name: keyof Drafts;
  readonly label: string;
  readonly note?: string;
  readonly isNumber: boolean;
}

function fieldsOf(trans: TranslationBundle): readonly IField[] {
  return [
    {
      name: 'denied_permissions',
      label: messages.deniedPermissions(trans),
      note: messages.deniedPermissionsNote(trans),
      isNumber: false
    },
    {
      name: 'denied_locations',
      label: messages.deniedZones(trans),
      note: messages.deniedZonesNote(trans),
      isNumber: false
    },
    {
      name: 'allowlist',
      label: messages.allowedTypes(trans),
      note: messages.allowedTypesNote(trans),
      isNumber: false
    },
    {
      name: 'addresses_per_region',
      label: messages.addressesPerRegion(trans),
      isNumber: true
    },
    { name: 'creates_per_minute', label: messages.createsPerMinute(trans), isNumber: true }
  ];
}

function draftsOf(switches: ISwitches): Drafts {
  return {
    denied_permissions: switches.denied_permissions.join(', '),
    denied_locations: switches.denied_locations.join(', '),
    allowlist: (switches.allowlist ?? []).join(', '),
    addresses_per_region: String(switches.addresses_per_region ?? ''),
    creates_per_minute: String(switches.creates_per_minute ?? '')
  };
}

function changeOf(drafts: Drafts): Partial<ISwitches> & JSONObject {
  return {
    denied_permissions: wordsOf(drafts.denied_permissions),
    denied_locations: wordsOf(drafts.denied_locations),
    allowlist: drafts.allowlist.trim() ? wordsOf(drafts.allowlist) : null,
    addresses_per_region: countOf(drafts.addresses_per_region),
    creates_per_minute: countOf(drafts.creates_per_minute)
  };
}
