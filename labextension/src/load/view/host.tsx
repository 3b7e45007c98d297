import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IHost, ISample } from '../records';
import { percentOf } from '../totals';
import { formatPercent, formatUsed, placed } from '../words';
import { Bar } from './bar';

interface IProps {
  sample: ISample;
  where: string;
  trans: TranslationBundle;
}

/** Processors, memory and disk of a worker. */
export function Host({ sample, where, trans }: IProps): JSX.Element {
  const { host, unknown } = sample;
  const name = placed(trans.__('host'), where, trans);
  return (
    <div className="jp-tpu-Chip" role="group" aria-label={name}>
      <div className="jp-tpu-Chip-name">
        {host.cpus === null
          ? trans.__('Host')
          : trans._n('Host · %1 CPU', 'Host · %1 CPUs', host.cpus)}
      </div>
      <Bar
        name={trans.__('CPU')}
        label={trans.__('CPU of %1', name)}
        percent={host.cpu_percent}
        text={host.cpu_percent === null ? trans.__('unknown') : formatPercent(host.cpu_percent)}
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
  const word = what === 'memory' ? trans.__('Memory') : trans.__('Disk');
  return (
    <Bar
      name={word}
      label={trans.__('%1 of %2', word, name)}
      percent={percentOf(used, total)}
      text={used === null ? trans.__('unknown') : formatUsed(used, total, trans)}
      title={used === null ? unknown[`${what}_used_bytes`] : undefined}
      isLimit={true}
    />
  );
}
