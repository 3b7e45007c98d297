import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IHost, ISample } from '../../api.generated';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { formatUsed, placed } from '../../messages/load';
import { percentOf } from '../totals';
import { formatPercent } from '../values';
import { Bar } from './bar';

interface IProps {
  sample: ISample;
  where: string;
  trans: TranslationBundle;
}

/** CPU, memory and disk of a worker. */
export function Host({ sample, where, trans }: IProps): JSX.Element {
  const { host, unknown } = sample;
  const name = placed(messages.host(trans), where, trans);
  return (
    <div className="jp-tpu-Chip" role="group" aria-label={name}>
      <div className="jp-tpu-Chip-name">
        {host.cpus === null ? messages.hostTitle(trans) : messages.hostWithCpus(host.cpus, trans)}
      </div>
      <Bar
        name={messages.cpu(trans)}
        label={messages.cpuOf(name, trans)}
        percent={host.cpu_percent}
        text={host.cpu_percent === null ? common.unknown(trans) : formatPercent(host.cpu_percent)}
        title={host.cpu_percent === null ? unknown.cpu_percent : undefined}
      />
      {(['memory', 'disk'] as const).map(what => (
        <Space key={what} {...{ what, host, name, unknown, trans }} />
      ))}
    </div>
  );
}

interface ISpaceProps {
  what: 'memory' | 'disk';
  host: IHost;
  name: string;
  unknown: ISample['unknown'];
  trans: TranslationBundle;
}

function Space({ what, host, name, unknown, trans }: ISpaceProps): JSX.Element {
  const used = host[`${what}_used_bytes`];
  const total = host[`${what}_total_bytes`];
  const word = what === 'memory' ? messages.memory(trans) : messages.disk(trans);
  return (
    <Bar
      name={word}
      label={messages.part(word, name, trans)}
      percent={percentOf(used, total)}
      text={used === null ? common.unknown(trans) : formatUsed(used, total, trans)}
      title={used === null ? unknown[`${what}_used_bytes`] : undefined}
      isLimit={true}
    />
  );
}
