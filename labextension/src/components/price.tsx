import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { formatPrice, formatPriceSource } from '../format';
import { IPrice } from '../tokens';

interface IProps {
  price: IPrice | null;
  spot: boolean;
  emulated: boolean;
  trans: TranslationBundle;
}

/** What a node will cost, told before it is made. */
export function PriceNotice({ price, spot, emulated, trans }: IProps): JSX.Element {
  return (
    <div className="jp-tpu-Price" role="status">
      <strong>{formatPrice(price, trans)}</strong>
      {price && <span> {spot ? trans.__('as spot') : trans.__('on demand')}</span>}
      <div className="jp-tpu-Muted">{formatPriceSource(price, trans)}</div>
      {emulated && <div>{trans.__('Emulated cloud: nothing is billed.')}</div>}
    </div>
  );
}
