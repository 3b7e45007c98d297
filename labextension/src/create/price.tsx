import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ICoverage, IOffer, Provisioning } from '../api.generated';
import { priceOf } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { grantedPrice, priceTerms } from '../messages/create';
import { formatPrice, formatPriceSource } from '../messages/units';

interface IProps {
  offer: IOffer;
  provisioning: Provisioning;
  emulated: boolean;
  /** Who pays; absent while unknown. */
  coverage?: ICoverage;
  trans: TranslationBundle;
}

/** The price of a node, shown before it is created. */
export function PriceNotice(props: IProps): JSX.Element {
  return (
    <div className="jp-tpu-Price" role="status">
      <Price {...props} />
    </div>
  );
}

/** One sentence with the price, its source, and whether it is simulated. */
export function Price(props: IProps): JSX.Element {
  const { provisioning, emulated, trans } = props;
  return (
    <>
      {provisioning === 'reserved' ? <Reserved trans={trans} /> : <ListPrice {...props} />}
      {emulated && <div>{common.emulatedCloudSentence(trans)}</div>}
    </>
  );
}

function ListPrice({ offer, provisioning, coverage, trans }: IProps): JSX.Element {
  const price = priceOf(offer, provisioning);
  const isFree = coverage?.covered ?? false;
  return (
    <>
      <div className={`jp-tpu-Coverage jp-mod-${isFree ? 'ok' : 'near'}`}>
        <strong>
          {coverage && isFree
            ? grantedPrice(coverage, formatPrice(price, trans), trans)
            : formatPrice(price, trans)}
        </strong>
        {price && <span> {priceTerms(provisioning, trans)}</span>}
      </div>
      {coverage?.detail && <div className="jp-tpu-Muted">{coverage.detail}</div>}
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
