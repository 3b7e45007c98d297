import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Field, ICore, ISample } from '../records';
import { chipsOf, IChipCores, percentOf } from '../totals';
import {
  fieldName,
  formatPercent,
  formatUnknown,
  formatUsed,
  missingFields,
  placed,
  reasonFor
} from '../words';
import { Bar } from './bar';

interface IProps {
  sample: ISample;
  /** The worker in words, where there are several. */
  where: string;
  trans: TranslationBundle;
}

/** All chips and cores of a worker, and what of them nobody can tell. */
export function Chips({ sample, where, trans }: IProps): JSX.Element {
  const missing = missingFields(sample);
  const isBare = missing.includes('duty_percent') && missing.includes('hbm_used_bytes');
  const shown = isBare && missing.includes('tensorcore_percent') ? [] : chipsOf(sample);
  return (
    <>
      {sample.state === 'idle' && (
        <div className="jp-tpu-Muted">{trans.__('Idle: no process is using the chips.')}</div>
      )}
      {sample.state === 'unknown' && (
        <div className="jp-tpu-Notice jp-tpu-Line">
          {trans.__('Unknown: %1', sample.reason || trans.__('no reason was given'))}
        </div>
      )}
      {shown.map(chip => (
        <Chip key={chip.chip} {...{ chip, sample, missing, where, trans }} />
      ))}
      {sample.state === 'measured' && <Unknown sample={sample} trans={trans} />}
    </>
  );
}

/** What is not known, with its reasons. */
function Unknown({ sample, trans }: Omit<IProps, 'where'>): JSX.Element | null {
  const lines = formatUnknown(sample, trans);
  return lines.length > 0 ? (
    <ul className="jp-tpu-Unknown jp-tpu-Muted" aria-label={trans.__('What is not known')}>
      {lines.map(line => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  ) : null;
}

interface IChipProps extends IProps {
  chip: IChipCores;
  missing: readonly Field[];
}

/** A chip: its duty, which several cores may share, and its cores. */
function Chip({ chip, sample, missing, where, trans }: IChipProps): JSX.Element {
  const isNamed = chip.cores.length > 1;
  const isShared = sample.duty_per === 'chip' && isNamed;
  const name = placed(trans.__('chip %1', chip.chip), where, trans);
  return (
    <div className="jp-tpu-Chip" role="group" aria-label={name}>
      <div className="jp-tpu-Chip-name">{trans.__('Chip %1', chip.chip)}</div>
      {!missing.includes('duty_percent') && (
        <Percent
          name={isShared ? trans.__('Chip duty') : trans.__('Duty')}
          of={name}
          percent={chip.duty_percent}
          reason={reasonFor(sample, 'duty_percent')}
          title={isShared ? trans.__('One number for all cores of the chip') : undefined}
          trans={trans}
        />
      )}
      {chip.cores.map(core => (
        <Core
          key={core.core}
          core={core}
          isNamed={isNamed}
          of={isNamed ? placed(trans.__('core %1', core.core), where, trans) : name}
          {...{ sample, missing, trans }}
        />
      ))}
    </div>
  );
}

interface ICoreProps extends Pick<IProps, 'sample' | 'trans'> {
  core: ICore;
  isNamed: boolean;
  of: string;
  missing: readonly Field[];
}

function Core({ core, isNamed, of, sample, missing, trans }: ICoreProps): JSX.Element {
  const { hbm_used_bytes: used, hbm_total_bytes: total } = core;
  const hbm = fieldName('hbm_used_bytes', trans);
  const percents = (['tensorcore_percent', 'hbm_bandwidth_percent'] as const).filter(
    field => !missing.includes(field)
  );
  return (
    <>
      {isNamed && <div className="jp-tpu-Core-name">{trans.__('Core %1', core.core)}</div>}
      {!missing.includes('hbm_used_bytes') && (
        <Bar
          name={hbm}
          label={trans.__('%1 of %2', hbm, of)}
          percent={percentOf(used, total)}
          text={used === null ? trans.__('unknown') : formatUsed(used, total, trans)}
          title={used === null ? reasonFor(sample, 'hbm_used_bytes') : undefined}
          isLimit={true}
        />
      )}
      {percents.map(field => (
        <Percent
          key={field}
          name={fieldName(field, trans)}
          of={of}
          percent={core[field]}
          reason={reasonFor(sample, field)}
          trans={trans}
        />
      ))}
      <Facts {...{ core, sample, missing, trans }} />
    </>
  );
}

interface IPercentProps {
  name: string;
  of: string;
  percent: number | null;
  reason: string;
  title?: string;
  trans: TranslationBundle;
}

function Percent({ name, of, percent, reason, title, trans }: IPercentProps): JSX.Element {
  return (
    <Bar
      name={name}
      label={trans.__('%1 of %2', name, of)}
      percent={percent}
      text={percent === null ? trans.__('unknown') : formatPercent(percent)}
      title={percent === null ? reason : title}
    />
  );
}

/** What is no part of a whole. */
function Facts(props: Omit<ICoreProps, 'of' | 'isNamed'>): JSX.Element | null {
  const { core, sample, missing, trans } = props;
  const facts = (['queued', 'idle_s'] as const).filter(field => !missing.includes(field));
  return facts.length > 0 ? (
    <div className="jp-tpu-Core-facts jp-tpu-Muted">
      {facts.map(field => (
        <span key={field} title={core[field] === null ? reasonFor(sample, field) : undefined}>
          {fieldName(field, trans)} {formatFact(field, core[field], trans)}
        </span>
      ))}
    </div>
  ) : null;
}

function formatFact(
  field: 'queued' | 'idle_s',
  value: number | null,
  trans: TranslationBundle
): string {
  if (value === null) {
    return trans.__('unknown');
  }
  return field === 'idle_s' ? trans.__('%1 s', value.toFixed(1)) : String(value);
}
