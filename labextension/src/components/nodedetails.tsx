import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { formatPriceSource, formatSize } from '../format';
import { INode, IWorker } from '../tokens';

interface IProps {
  id: string;
  node: INode;
  trans: TranslationBundle;
}

/** Everything else that is known of a node. */
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
    [trans.__('Size'), node.accelerator ? formatSize(node.accelerator, trans) : ''],
    [trans.__('Runtime version'), node.runtime_version],
    [trans.__('Created'), formatTime(node.create_time)],
    [trans.__('Health'), node.health],
    [trans.__('Addresses'), node.workers.map(addressOf).filter(Boolean).join(', ')],
    [trans.__('Price'), formatPriceSource(node.price, trans)],
    [trans.__('Full name'), node.name],
    [trans.__('Description'), node.description]
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
