import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode, IWorker } from '../api.generated';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { formatPriceSource, formatSize } from '../messages/units';

interface IProps {
  id: string;
  node: INode;
  trans: TranslationBundle;
}

/** The other facts about a node. */
export function NodeDetails({ id, node, trans }: IProps): JSX.Element {
  return (
    <dl id={id} className="jp-tpu-Details jp-tpu-Stack">
      {facts(node, trans).map(([term, text]) => (
        <React.Fragment key={term}>
          <dt>{term}</dt>
          <dd title={text}>{text}</dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

function facts(node: INode, trans: TranslationBundle): [string, string][] {
  const all: [string, string][] = [
    [messages.size(trans), node.accelerator ? formatSize(node.accelerator, trans) : ''],
    [common.runtimeVersion(trans), node.runtime_version],
    [messages.created(trans), formatTime(node.create_time)],
    [messages.health(trans), node.health],
    [messages.addresses(trans), node.workers.map(addressOf).filter(Boolean).join(', ')],
    [messages.price(trans), formatPriceSource(node.price, trans)],
    [messages.fullName(trans), node.name],
    [messages.description(trans), node.description]
  ];
  return all.filter(([, text]) => text);
}

function addressOf(worker: IWorker): string {
  return worker.external_ip || worker.ip_address;
}

function formatTime(rfc3339: string): string {
  const time = new Date(rfc3339);
  return Number.isNaN(time.getTime()) ? rfc3339 : time.toLocaleString();
}
