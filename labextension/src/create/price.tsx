import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IOffer, Provisioning } from '../api.generated';
import { priceOf } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { priceTerms } from '../messages/create';
import { formatPrice, formatPriceSource } from '../messages/units';

interface IProps {
  offer: IOffer;
  provisioning: Provisioning;
  emulated: boolean;
  trans: TranslationBundle;
}

/** The price of a node, shown before it is created. */
export function PriceNotice(props: IProps): JSX.Element {
  const { provisioning, emulated, trans } = props;
  return (
    <div className="jp-tpu-Price" role="status">
      {provisioning === 'reserved' ? <Reserved trans={trans} /> : <ListPrice {...props} />}
      {emulated && <div>{common.emulatedCloudSentence(trans)}</div>}
    </div>
  );
}

function ListPrice({ offer, provisioning, trans }: IProps): JSX.Element {
  const price = priceOf(offer, provisioning);
  return (
    <>
      <strong>{formatPrice(price, trans)}</strong>
      {price && <span> {priceTerms(provisioning, trans)}</span>}
      <div className="jp-tpu-Muted">{formatPriceSource(price, trans)}</div>
    </>
  );
}

function Reserved({ trans }: Pick<IProps, 'trans'>): JSX.Element {
  return (
    <>
      <strong>{messages.billedWithReservation(trans)}</strong>
      <div className="jp-tpu-Muted">{messages.reservationPrice(trans)}</div>
    </>
  );
}
