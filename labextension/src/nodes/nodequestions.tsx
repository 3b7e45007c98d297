import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode } from '../api.generated';
import { billingOfNodes } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { currentCost, noStartText } from '../messages/panel';
import * as units from '../messages/units';
import { formatPriceSource } from '../messages/units';

interface IProps {
  node: INode;
  emulated: boolean;
  trans: TranslationBundle;
}

interface IDeleteProps extends IProps {
  /** Whether the node is lost, and deleted so that another one can have its name. */
  isRecreated?: boolean;
}

/** The data that is lost when a node is deleted. */
export function DeleteQuestion(props: IDeleteProps): JSX.Element {
  const { node, emulated, isRecreated = false, trans } = props;
  return (
    <>
      <Subject node={node} trans={trans} />
      <p>
        {isRecreated
          ? messages.recreateConsequences(node.node_id, trans)
          : messages.deleteConsequences(trans)}{' '}
        {messages.notebooksStay(trans)}
      </p>
      <SavedCost node={node} emulated={emulated} trans={trans} />
      {!node.managed && (
        <p>
          <strong>{messages.mayBeInUse(trans)}</strong>
        </p>
      )}
    </>
  );
}

/** The consequences of stopping a node: what ends and what stays. */
export function StopQuestion({ node, emulated, trans }: IProps): JSX.Element {
  const noStart = noStartText(node, trans);
  return (
    <>
      <Subject node={node} trans={trans} />
      {noStart ? (
        <>
          <p>{messages.kernelsStop(trans)}</p>
          <p>
            <strong>{noStart}</strong>
          </p>
        </>
      ) : (
        <p>{messages.stopConsequences(trans)}</p>
      )}
      <SavedCost node={node} emulated={emulated} trans={trans} />
    </>
  );
}

interface IManyProps extends Omit<IProps, 'node'> {
  nodes: readonly INode[];
}

/** The consequences of stopping several nodes, for each node. */
export function StopManyQuestion({ nodes, emulated, trans }: IManyProps): JSX.Element {
  const billing = billingOfNodes(nodes);
  const rate = units.rateOf(billing, trans);
  return (
    <>
      <ul className="jp-tpu-Question-list">
        {nodes.map(node => (
          <li key={node.name}>
            {messages.nodeToStop(
              node.node_id,
              `${node.accelerator_type} · ${node.zone}`,
              units.nodePrice(node, trans),
              trans
            )}
            {node.spot && ` · ${messages.cannotStartAgain(trans)}`}
          </li>
        ))}
      </ul>
      <p>{messages.stopManyConsequences(trans)}</p>
      <p>
        <strong>
          {billing.isCovered
            ? messages.grantCoversThem(trans)
            : messages.hourlyBillingStops(rate, trans)}
        </strong>
        {emulated && ` ${common.emulatedCloudSentence(trans)}`}
      </p>
      {nodes.some(({ managed }) => !managed) && (
        <p>
          <strong>{messages.someMayBeInUse(trans)}</strong>
        </p>
      )}
    </>
  );
}

function Subject({ node, trans }: Omit<IProps, 'emulated'>): JSX.Element {
  return <p>{messages.subject(node.accelerator_type, node.zone, node.state, trans)}</p>;
}

/** The cost that is billed now and will stop. */
function SavedCost({ node, emulated, trans }: IProps): JSX.Element {
  return (
    <p title={formatPriceSource(node.price, trans)}>
      <strong>{currentCost(node, trans)}</strong>
      {emulated && ` ${common.emulatedCloudSentence(trans)}`}
    </p>
  );
}
