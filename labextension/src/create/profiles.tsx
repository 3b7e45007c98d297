import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon } from '@jupyterlab/ui-components';
import React, { useState } from 'react';
import { Button } from '../components/button';
import { Field, options, Select } from '../components/field';
import { IconButton } from '../components/iconbutton';
import * as messages from '../messages/create';
import { IProfile } from './tokens';

/** The most characters of a name; longer ones do not fit into the list. */
const MAX_NAME = 63;

interface IProps {
  profiles: readonly IProfile[];
  /** The name of the last chosen profile; empty if there is none. */
  chosen: string;
  trans: TranslationBundle;
  onChoose: (profile: IProfile) => void;
  onDelete: (name: string) => void;
}

/** The saved profiles, to select or delete. */
export function Profiles({ profiles, chosen, trans, onChoose, onDelete }: IProps): JSX.Element {
  const current = profiles.find(({ name }) => name === chosen);
  return (
    <div className="jp-tpu-Profiles">
      <Select
        label={messages.profile(trans)}
        value={current?.name ?? ''}
        onChange={name => profiles.filter(one => one.name === name).forEach(onChoose)}
      >
        {!current && <option value="">{messages.noProfile(trans)}</option>}
        {options(profiles.map(({ name }) => name))}
      </Select>
      {current && (
        <IconButton
          label={messages.deleteProfile(current.name, trans)}
          icon={closeIcon}
          onClick={() => onDelete(current.name)}
        />
      )}
    </div>
  );
}

interface ISaveProps {
  trans: TranslationBundle;
  onSave: (name: string) => void;
}

/** A form that saves the current choice under a name. */
export function SaveProfile({ trans, onSave }: ISaveProps): JSX.Element {
  const [name, setName] = useState('');
  const save = (): void => {
    if (name.trim()) {
      onSave(name.trim());
      setName('');
    }
  };
  return (
    <div className="jp-tpu-Profiles">
      <Field label={messages.saveAsProfile(trans)}>
        {attributes => (
          <input
            className="jp-mod-styled"
            type="text"
            autoComplete="off"
            maxLength={MAX_NAME}
            placeholder={messages.profileName(trans)}
            value={name}
            onChange={event => setName(event.target.value)}
            onKeyDown={event => {
              // in a form, Enter would submit it and create a node
              if (event.key === 'Enter') {
                event.preventDefault();
                save();
              }
            }}
            {...attributes}
          />
        )}
      </Field>
      <Button isOff={!name.trim()} onClick={save}>
        {messages.save(trans)}
      </Button>
    </div>
  );
}
