import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { formatPrice, formatPriceSource, priceOf } from '../format';
import { IOffer, Provisioning } from '../tokens';

interface IProps {
  offer: IOffer;
  provisioning: Provisioning;
  emulated: boolean;
  trans: TranslationBundle;
}

/** What a node will cost, told before it is made. */
export function PriceNotice(props: IProps): JSX.Element {
  const { provisioning, emulated, trans } = props;
  return (
    <div className="jp-tpu-Price" role="status">
      {provisioning === 'reserved' ? <Reserved trans={trans} /> : <ListPrice {...props} />}
      {emulated && <div>{trans.__('Emulated cloud: nothing is billed.')}</div>}
    </div>
  );
}

function ListPrice({ offer, provisioning, trans }: IProps): JSX.Element {
  const price = priceOf(offer, provisioning);
  return (
    <>
      <strong>{formatPrice(price, trans)}</strong>
      {price && <span> {termsOf(provisioning, trans)}</span>}
      <div className="jp-tpu-Muted">{formatPriceSource(price, trans)}</div>
    </>
  );
}

function termsOf(provisioning: Provisioning, trans: TranslationBundle): string {
  const words: { readonly [terms in Provisioning]: string } = {
    'on-demand': trans.__('on demand'),
    spot: trans.__('as spot'),
    preemptible: trans.__('as preemptible'),
    reserved: trans.__('as reserved'),
    'flex-start': trans.__('by flex-start')
  };
  return words[provisioning];
}

function Reserved({ trans }: Pick<IProps, 'trans'>): JSX.Element {
  return (
    <>
      <strong>{trans.__('Billed with its reservation')}</strong>
      <div className="jp-tpu-Muted">
        {trans.__('A reservation has its own price, and is paid whether it is used or not.')}
      </div>
    </>
  );
}
