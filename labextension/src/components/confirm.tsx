import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { formatPrice, formatPriceSource, formatUsd, noStartText } from '../format';
import { INode } from '../tokens';

interface IProps {
  node: INode;
  emulated: boolean;
  trans: TranslationBundle;
}

/** What deleting a node ends and destroys. */
export function DeleteQuestion({ node, emulated, trans }: IProps): JSX.Element {
  return (
    <>
      <Subject node={node} trans={trans} />
      <p>{trans.__('Its disk and every file on it are lost, and its kernels end.')}</p>
      <Saving node={node} emulated={emulated} trans={trans} />
      {!node.managed && (
        <p>
          <strong>
            {trans.__(
              'This node was not created by jupyter_tpu and may be in use by someone else.'
            )}
          </strong>
        </p>
      )}
    </>
  );
}

/** What stopping a node ends and keeps. */
export function StopQuestion({ node, emulated, trans }: IProps): JSX.Element {
  const noStart = noStartText(node, trans);
  return (
    <>
      <Subject node={node} trans={trans} />
      {noStart ? (
        <>
          <p>{trans.__('Its kernels end.')}</p>
          <p>
            <strong>{noStart}</strong>
          </p>
        </>
      ) : (
        <p>{trans.__('Its kernels end. Its disk is kept, and it can be started again.')}</p>
      )}
      <Saving node={node} emulated={emulated} trans={trans} />
    </>
  );
}

function Subject({ node, trans }: Omit<IProps, 'emulated'>): JSX.Element {
  return <p>{trans.__('%1 in %2, state %3.', node.accelerator_type, node.zone, node.state)}</p>;
}

/** What is paid now, and is not any more afterwards. */
function Saving({ node, emulated, trans }: IProps): JSX.Element {
  return (
    <p title={formatPriceSource(node.price, trans)}>
      <strong>{emulated ? emulatedCostOf(node, trans) : costOf(node, trans)}</strong>
    </p>
  );
}

function emulatedCostOf({ price }: INode, trans: TranslationBundle): string {
  return price
    ? trans.__(
        'Nothing is billed: the cloud is emulated. A real node costs %1.',
        formatPrice(price, trans)
      )
    : trans.__('Nothing is billed: the cloud is emulated.');
}

function costOf({ billing, price, cost_usd }: INode, trans: TranslationBundle): string {
  if (!billing) {
    return trans.__('It is not billed by the hour in this state.');
  }
  if (!price) {
    return trans.__('It is billed now, at a price per hour that is not known here. That ends.');
  }
  const rate = formatPrice(price, trans);
  return cost_usd === null
    ? trans.__('It costs %1 now. That ends.', rate)
    : trans.__('It costs %1 now, %2 so far. That ends.', rate, formatUsd(cost_usd));
}
