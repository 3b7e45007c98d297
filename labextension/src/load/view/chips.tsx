import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ICore, ISample } from '../../api.generated';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { fieldName, formatUnknown, formatUsed, placed } from '../../messages/load';
import { chipsOf, IChipCores, percentOf } from '../totals';
import {
  CORE_FIELDS,
  CoreField,
  Field,
  FIELDS,
  fieldsOf,
  formatPercent,
  missingFields,
  reasonFor
} from '../values';
import { Bar } from './bar';

interface IProps {
  sample: ISample;
  /** The worker's name; empty if there is only one. */
  where: string;
  trans: TranslationBundle;
}

/** All chips and cores of a worker, and the values that are unknown. */
export function Chips({ sample, where, trans }: IProps): JSX.Element {
  const missing = missingFields(sample);
  const shown = missing.length < FIELDS.length ? chipsOf(sample) : [];
  return (
    <>
      {sample.state === 'idle' && <div className="jp-tpu-Muted">{messages.idle(trans)}</div>}
      {sample.state === 'unknown' && (
        <div className="jp-tpu-Notice jp-tpu-Line">
          {messages.unknownBecause(sample.reason || messages.noReason(trans), trans)}
        </div>
      )}
      {shown.map(chip => (
        <Chip key={chip.chip} {...{ chip, sample, missing, where, trans }} />
      ))}
      {sample.state === 'measured' && <Unknown sample={sample} trans={trans} />}
    </>
  );
}

/** The unknown values with their reasons. */
function Unknown({ sample, trans }: Omit<IProps, 'where'>): JSX.Element | null {
  const lines = formatUnknown(sample, trans);
  return lines.length > 0 ? (
    <ul className="jp-tpu-Unknown jp-tpu-Muted" aria-label={messages.unknownValues(trans)}>
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
  const name = placed(messages.chip(chip.chip, trans), where, trans);
  return (
    <div className="jp-tpu-Chip" role="group" aria-label={name}>
      <div className="jp-tpu-Chip-name">{messages.chipTitle(chip.chip, trans)}</div>
      {!missing.includes('duty_percent') && (
        <Percent
          name={isShared ? messages.chipDuty(trans) : messages.duty(trans)}
          of={name}
          percent={chip.duty_percent}
          reason={reasonFor(sample, 'duty_percent')}
          title={isShared ? messages.sharedDuty(trans) : undefined}
          trans={trans}
        />
      )}
      {chip.cores.map(core => (
        <Core
          key={core.core}
          core={core}
          isNamed={isNamed}
          of={isNamed ? placed(messages.core(core.core, trans), where, trans) : name}
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
  return (
    <>
      {isNamed && <div className="jp-tpu-Core-name">{messages.coreTitle(core.core, trans)}</div>}
      {!missing.includes('hbm_used_bytes') && (
        <Bar
          name={hbm}
          label={messages.part(hbm, of, trans)}
          percent={percentOf(used, total)}
          text={used === null ? common.unknown(trans) : formatUsed(used, total, trans)}
          title={used === null ? reasonFor(sample, 'hbm_used_bytes') : undefined}
          isLimit={true}
        />
      )}
      {fieldsOf(['percent'], missing).map(field => (
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
      label={messages.part(name, of, trans)}
      percent={percent}
      text={percent === null ? common.unknown(trans) : formatPercent(percent)}
      title={percent === null ? reason : title}
    />
  );
}

/** Values that are not shares of a total. */
function Facts(props: Omit<ICoreProps, 'of' | 'isNamed'>): JSX.Element | null {
  const { core, sample, missing, trans } = props;
  const facts = fieldsOf(['count', 'seconds', 'bytes'], missing).filter(
    field => field !== 'hbm_used_bytes'
  );
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

function formatFact(field: CoreField, value: number | null, trans: TranslationBundle): string {
  if (value === null) {
    return common.unknown(trans);
  }
  switch (CORE_FIELDS[field]) {
    case 'seconds':
      return messages.seconds(value.toFixed(1), trans);
    case 'bytes':
      return formatUsed(value, null, trans);
    default:
      return String(value);
  }
}
