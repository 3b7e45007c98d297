import { TranslationBundle } from '@jupyterlab/translation';
import { copyIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { INode, IWorker } from '../api.generated';
import { IconButton } from '../components/iconbutton';
import { sshCommand } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { formatPriceSource, formatSize } from '../messages/units';
import { dateLocale } from '../money/moments';

interface IProps {
  node: INode;
  onCopy: (text: string) => void;
  trans: TranslationBundle;
}

/** One fact about a node. */
interface IFact {
  readonly term: string;
  /** Empty if unknown. */
  readonly text: string;
  /** The text that the copy button copies; without it there is no button. */
  readonly copied?: string;
}

/** Further facts about a node; those that are useful elsewhere have a copy button. */
export function NodeDetails({ node, onCopy, trans }: IProps): JSX.Element {
  return (
    <details className="jp-tpu-Raw">
      <summary>{messages.details(trans)}</summary>
      <dl className="jp-tpu-Details jp-tpu-Stack">
        {factsOf(node, trans).map(({ term, text, copied }) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>
              <bdi>{text}</bdi>
              {copied && (
                <IconButton
                  label={messages.copyOf(term, trans)}
                  icon={copyIcon}
                  onClick={() => onCopy(copied)}
                />
              )}
            </dd>
          </React.Fragment>
        ))}
      </dl>
    </details>
  );
}

function factsOf(node: INode, trans: TranslationBundle): IFact[] {
  const plain: IFact[] = [
    {
      term: messages.size(trans),
      text: node.accelerator ? formatSize(node.accelerator, trans) : ''
    },
    { term: common.runtimeVersion(trans), text: node.runtime_version },
    { term: messages.created(trans), text: formatTime(node.create_time) },
    { term: messages.health(trans), text: node.health },
    { term: messages.price(trans), text: formatPriceSource(node.price, trans) },
    { term: messages.description(trans), text: node.description }
  ];
  const addresses = node.workers.map(addressOf).filter(Boolean).join(', ');
  const copied: IFact[] = [
    { term: common.name(trans), text: node.node_id, copied: node.node_id },
    { term: messages.fullName(trans), text: node.name, copied: node.name },
    {
      term: messages.sshCommand(trans),
      text: messages.inTerminal(trans),
      copied: sshCommand(node)
    },
    { term: messages.addresses(trans), text: addresses, copied: addresses }
  ];
  return [...copied, ...plain].filter(({ text }) => text);
}

function addressOf(worker: IWorker): string {
  return worker.external_ip || worker.ip_address;
}

function formatTime(rfc3339: string): string {
  const time = new Date(rfc3339);
  return Number.isNaN(time.getTime()) ? rfc3339 : time.toLocaleString(dateLocale());
}
