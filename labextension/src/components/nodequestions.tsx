import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode } from '../api.generated';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { currentCost, noStartText } from '../messages/panel';
import { formatPriceSource } from '../messages/units';

interface IProps {
  node: INode;
  emulated: boolean;
  trans: TranslationBundle;
}

/** What deleting a node destroys. */
export function DeleteQuestion({ node, emulated, trans }: IProps): JSX.Element {
  return (
    <>
      <Subject node={node} trans={trans} />
      <p>{messages.deleteConsequences(trans)}</p>
      <SavedCost node={node} emulated={emulated} trans={trans} />
      {!node.managed && (
        <p>
          <strong>{messages.mayBeInUse(trans)}</strong>
        </p>
      )}
    </>
  );
}

/** What stopping a node ends and what it keeps. */
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

function Subject({ node, trans }: Omit<IProps, 'emulated'>): JSX.Element {
  return <p>{messages.subject(node.accelerator_type, node.zone, node.state, trans)}</p>;
}

/** What is billed now and will stop. */
function SavedCost({ node, emulated, trans }: IProps): JSX.Element {
  return (
    <p title={formatPriceSource(node.price, trans)}>
      <strong>{currentCost(node, trans)}</strong>
      {emulated && ` ${common.emulatedCloudSentence(trans)}`}
    </p>
  );
}
