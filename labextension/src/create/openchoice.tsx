import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Check, Select } from '../components/field';
import * as messages from '../messages/create';
import { IOpenChoice } from '../tokens';
import { ICreateMemory } from './tokens';

interface IProps {
  open: IOpenChoice;
  memory: Pick<ICreateMemory, 'notebook' | 'example'>;
  trans: TranslationBundle;
  onChange: (open: IOpenChoice) => void;
}

/** The field for what opens on the node as soon as it is READY. */
export function OpenChoice({ open, memory, trans, onChange }: IProps): JSX.Element {
  const choices = openChoices(memory, open);
  return (
    <>
      <Select
        label={messages.openWhenReady(trans)}
        value={keyOf(open)}
        onChange={value => onChange(choices.find(one => keyOf(one) === value) ?? open)}
      >
        {choices.map(one => (
          <option key={keyOf(one)} value={keyOf(one)}>
            {messages.openName(one, trans)}
          </option>
        ))}
      </Select>
      {open.path !== undefined && (
        <Check
          label={messages.runAllCells(trans)}
          checked={open.runsAll}
          onChange={runsAll => onChange({ ...open, runsAll })}
        />
      )}
    </>
  );
}

function keyOf({ kind, path = '' }: IOpenChoice): string {
  return `${kind} ${path}`;
}

/** All notebooks that can be opened, and the current choice even if it has disappeared in the meantime. */
export function openChoices(
  { notebook, example }: IProps['memory'],
  chosen: IOpenChoice | null
): IOpenChoice[] {
  const all: IOpenChoice[] = [
    ...(example !== null ? [{ kind: 'example' as const, path: example, runsAll: true }] : []),
    ...(notebook !== null && notebook !== example
      ? [{ kind: 'notebook' as const, path: notebook, runsAll: false }]
      : []),
    { kind: 'new', runsAll: false },
    { kind: 'none', runsAll: false }
  ];
  const isListed = !chosen || all.some(one => keyOf(one) === keyOf(chosen));
  return isListed ? all : [chosen, ...all];
}

/** The suggested choice: the last one if it still exists, else the first. */
export function suggestOpen(
  memory: Pick<ICreateMemory, 'notebook' | 'example' | 'lastOpen'>
): IOpenChoice {
  const all = openChoices(memory, null);
  return all.find(({ kind }) => kind === memory.lastOpen?.kind) ?? all[0];
}
