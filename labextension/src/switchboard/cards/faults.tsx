import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Select } from '../../components/field';
import { ICardProps } from '../page';
import { IScriptedFault } from '../records';
import { choicesFor, faultName, methodName, METHODS } from '../words';
import { Card, Rows } from './card';

/** Faults that wait for their call, and a form for another one. */
export function FaultsCard({ cloud, acts, trans }: ICardProps): JSX.Element {
  return (
    <Card title={trans.__('Scripted faults')}>
      <Rows
        label={trans.__('Faults that wait for their call')}
        empty={trans.__('No fault waits for its call.')}
        items={cloud.faults}
        keyOf={fault => String(fault.id ?? cloud.faults.indexOf(fault))}
        trans={trans}
      >
        {fault => <Fault {...{ fault, acts, trans }} />}
      </Rows>
      {cloud.faults.length > 1 && (
        <div className="jp-tpu-Actions">
          <Button onClick={acts.onClearFaults}>{trans.__('Forget all faults')}</Button>
        </div>
      )}
      <FaultForm {...{ acts, trans }} />
    </Card>
  );
}

type IFaultProps = Pick<ICardProps, 'acts' | 'trans'> & { fault: IScriptedFault };

function Fault({ fault, acts, trans }: IFaultProps): JSX.Element {
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
          aria-label={trans.__('Forget the fault of %1: %2', call, what)}
          onClick={() => acts.onRemoveFault(fault.id ?? 0)}
        >
          {trans.__('Forget')}
        </Button>
      )}
    </div>
  );
}

function timesOf({ times }: IScriptedFault, trans: TranslationBundle): string {
  return times === null ? trans.__('every time') : trans._n('once', '%1 times', times);
}

function FaultForm({ acts, trans }: Pick<ICardProps, 'acts' | 'trans'>): JSX.Element {
  const [method, setMethod] = useState(METHODS[0]);
  const [wanted, setId] = useState('');
  const [times, setTimes] = useState('1');
  const choices = choicesFor(method, trans);
  const chosen = choices.find(({ id }) => id === wanted) ?? choices[0];
  return (
    <form
      aria-label={trans.__('Script a fault')}
      onSubmit={event => {
        event.preventDefault();
        acts.onAddFault({ method, times: Number(times), ...chosen.fields });
      }}
    >
      <Select label={trans.__('The next call of')} value={method} onChange={setMethod}>
        {METHODS.map(one => (
          <option key={one} value={one}>
            {methodName(one, trans)}
          </option>
        ))}
      </Select>
      <Select label={trans.__('Fails so')} value={chosen.id} onChange={setId}>
        {choices.map(choice => (
          <option key={choice.id} value={choice.id}>
            {choice.label}
          </option>
        ))}
      </Select>
      <Select label={trans.__('How often')} value={times} onChange={setTimes}>
        {[1, 2, 3, 10].map(one => (
          <option key={one} value={String(one)}>
            {trans._n('once', '%1 times', one)}
          </option>
        ))}
      </Select>
      <div className="jp-tpu-Actions">
        <Button kind="accept" type="submit">
          {trans.__('Add fault')}
        </Button>
      </div>
    </form>
  );
}
