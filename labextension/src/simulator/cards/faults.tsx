import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Select } from '../../components/field';
import * as common from '../../messages/common';
import * as messages from '../../messages/simulator';
import { choicesFor, faultName, methodName, METHODS } from '../faults';
import { ICardProps } from '../page';
import { IScriptedFault } from '../records';
import { Card, Rows } from './card';

/** Pending faults, and a form to add one. */
export function FaultsCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.faults(trans)}>
      <Rows
        label={messages.pendingFaults(trans)}
        empty={messages.noFaults(trans)}
        items={cloud.faults}
        keyOf={fault => String(fault.id ?? cloud.faults.indexOf(fault))}
        trans={trans}
      >
        {fault => <Fault {...{ fault, actions, trans }} />}
      </Rows>
      {cloud.faults.length > 1 && (
        <div className="jp-tpu-Actions">
          <Button onClick={actions.onClearFaults}>{messages.removeAllFaults(trans)}</Button>
        </div>
      )}
      <FaultForm {...{ actions, trans }} />
    </Card>
  );
}

type IFaultProps = Pick<ICardProps, 'actions' | 'trans'> & { fault: IScriptedFault };

function Fault({ fault, actions, trans }: IFaultProps): JSX.Element {
  const what = faultName(fault, trans);
  const call = methodName(fault.method, trans);
  return (
    <div className="jp-tpu-Row">
      <span className="jp-tpu-Row-text">
        <strong>{call}</strong> · {what}{' '}
        <span className="jp-tpu-Muted">{timesOf(fault, trans)}</span>
      </span>
      {fault.id !== undefined && (
        <Button
          aria-label={messages.removeFault(call, what, trans)}
          onClick={() => actions.onRemoveFault(fault.id ?? 0)}
        >
          {common.remove(trans)}
        </Button>
      )}
    </div>
  );
}

function timesOf({ times }: IScriptedFault, trans: TranslationBundle): string {
  return times === null ? messages.everyTime(trans) : messages.times(times, trans);
}

function FaultForm({ actions, trans }: Pick<ICardProps, 'actions' | 'trans'>): JSX.Element {
  const [method, setMethod] = useState(METHODS[0]);
  const [requested, setId] = useState('');
  const [times, setTimes] = useState('1');
  const choices = choicesFor(method, trans);
  const chosen = choices.find(({ id }) => id === requested) ?? choices[0];
  return (
    <form
      aria-label={messages.addAFault(trans)}
      onSubmit={event => {
        event.preventDefault();
        actions.onAddFault({ method, times: Number(times), ...chosen.fields });
      }}
    >
      <Select label={messages.nextCallOf(trans)} value={method} onChange={setMethod}>
        {METHODS.map(one => (
          <option key={one} value={one}>
            {methodName(one, trans)}
          </option>
        ))}
      </Select>
      <Select label={messages.failsWith(trans)} value={chosen.id} onChange={setId}>
        {choices.map(choice => (
          <option key={choice.id} value={choice.id}>
            {choice.label}
          </option>
        ))}
      </Select>
      <Select label={messages.howOften(trans)} value={times} onChange={setTimes}>
        {[1, 2, 3, 10].map(one => (
          <option key={one} value={String(one)}>
            {messages.times(one, trans)}
          </option>
        ))}
      </Select>
      <div className="jp-tpu-Actions">
        <Button kind="accept" type="submit">
          {messages.addFault(trans)}
        </Button>
      </div>
    </form>
  );
}
