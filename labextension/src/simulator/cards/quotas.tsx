import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { Button } from '../../components/button';
import * as common from '../../messages/common';
import * as messages from '../../messages/simulator';
import { countOf, isCount } from '../faults';
import { ICardProps } from '../page';
import { IQuota } from '../records';
import { Card, Rows } from './card';

/** Quotas in use, with a limit that can be changed. */
export function QuotasCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.quotas(trans)}>
      <Rows
        label={messages.quotas(trans)}
        empty={messages.noQuota(trans)}
        items={cloud.quotas}
        keyOf={quota => `${quota.quota_id} ${whereOf(quota)}`}
        trans={trans}
      >
        {quota => <Quota {...{ quota, actions, trans }} />}
      </Rows>
    </Card>
  );
}

function whereOf({ zone, region }: IQuota): string {
  return zone ?? region ?? '';
}

type IQuotaProps = Pick<ICardProps, 'actions' | 'trans'> & { quota: IQuota };

function Quota({ quota, actions, trans }: IQuotaProps): JSX.Element {
  const id = useId();
  const [draft, setDraft] = useState<string | null>(null);
  const text = draft ?? (quota.limit < 0 ? '' : String(quota.limit));
  const isWrong = !isCount(text);
  const name = common.inPlace(quota.label, whereOf(quota), trans);
  return (
    <form
      aria-label={name}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!isWrong && draft !== null) {
          actions.onSetQuota(keyOf(quota), countOf(text));
          setDraft(null);
        }
      }}
    >
      <div title={quota.quota_id}>{quota.label}</div>
      <div className="jp-tpu-Row">
        <span className="jp-tpu-Row-text jp-tpu-Muted">{useOf(quota, trans)}</span>
        <label htmlFor={id}>{messages.limit(trans)}</label>
        <input
          id={id}
          className="jp-mod-styled jp-tpu-Number"
          inputMode="numeric"
          autoComplete="off"
          aria-invalid={isWrong}
          placeholder={messages.noLimit(trans)}
          value={text}
          onChange={event => setDraft(event.target.value)}
        />
        <Button
          type="submit"
          isOff={isWrong || draft === null}
          aria-label={messages.setLimitOf(name, trans)}
        >
          {messages.setButton(trans)}
        </Button>
      </div>
    </form>
  );
}

/** The key of a quota, which applies to a zone or a region. */
function keyOf({ quota_id, zone, region }: IQuota): Omit<IQuota, 'label' | 'used' | 'limit'> {
  return zone === undefined ? { quota_id, region } : { quota_id, zone };
}

function useOf(quota: IQuota, trans: TranslationBundle): string {
  return quota.used === undefined
    ? whereOf(quota)
    : messages.inUse(whereOf(quota), quota.used, trans);
}
