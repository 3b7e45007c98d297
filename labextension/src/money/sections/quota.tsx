import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Check } from '../../components/field';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import { IQuotaLimit, IQuotaUser } from '../records';
import { isUsed, limitsThatMatter, textOf } from '../words';
import { IMoneyActs, ISectionProps, Meter, PartBody, Partial, Section } from './section';

/** More rows than this help nobody. */
const LONGEST = 100;

/** What the project may use, what of it is used, and by what. */
export function QuotaSection({ model, acts, trans }: ISectionProps): JSX.Element {
  return (
    <Section
      name="quota"
      title={trans.__('Quota')}
      isOpen={model.open.has('quota')}
      onToggle={acts.onToggle}
    >
      <PartBody part={model.parts.quota} trans={trans}>
        {quota => (
          <>
            <Partial list={quota} trans={trans} />
            {[quota.error, ...(quota.uncounted ?? [])]
              .map(textOf)
              .filter(Boolean)
              .map((text, index) => (
                <div key={index} className="jp-tpu-Notice jp-tpu-Line">
                  {text}
                </div>
              ))}
            <Limits limits={quota.limits} chosenZone={model.chosenZone} acts={acts} trans={trans} />
          </>
        )}
      </PartBody>
    </Section>
  );
}

interface ILimitsProps {
  limits: readonly IQuotaLimit[];
  chosenZone: string;
  acts: Pick<IMoneyActs, 'onSweep'>;
  trans: TranslationBundle;
}

function Limits({ limits, chosenZone, acts, trans }: ILimitsProps): JSX.Element {
  const [isAll, setAll] = useState(false);
  const { isSending, problem, send, dismiss } = useSending();
  const shown = isAll ? limits : limitsThatMatter(limits, chosenZone);
  const free = (user: IQuotaUser): void => send(() => acts.onSweep([user.name]));
  return (
    <>
      {limits.length > 0 && (
        <Check
          label={trans.__('Show all %1 limits', limits.length)}
          checked={isAll}
          onChange={setAll}
        />
      )}
      {shown.length === 0 && <div className="jp-tpu-Muted">{trans.__('No quota is in use.')}</div>}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      <ul className="jp-tpu-Items" aria-label={trans.__('Quota limits')}>
        {shown.slice(0, LONGEST).map(limit => (
          <li key={`${limit.quota_id} ${limit.location}`}>
            <Limit limit={limit} isBusy={isSending} trans={trans} onFree={free} />
          </li>
        ))}
      </ul>
      {shown.length > LONGEST && (
        <div className="jp-tpu-Muted">{trans.__('and %1 more', shown.length - LONGEST)}</div>
      )}
    </>
  );
}

interface ILimitProps {
  limit: IQuotaLimit;
  isBusy: boolean;
  trans: TranslationBundle;
  onFree: (user: IQuotaUser) => void;
}

function Limit({ limit, isBusy, trans, onFree }: ILimitProps): JSX.Element {
  const text = useOf(limit, trans);
  return (
    <>
      <div title={limit.quota_id}>
        {limit.label} · {limit.location}
      </div>
      <div className="jp-tpu-Muted">{text}</div>
      {limit.limit !== null && isUsed(limit) && (
        <Meter
          label={trans.__('%1 in %2', limit.label, limit.location)}
          fraction={limit.limit > 0 ? limit.used / limit.limit : 1}
          text={text}
          level={limit.used >= limit.limit ? 'full' : 'ok'}
        />
      )}
      {limit.users.map(user => (
        <div key={user.name} className="jp-tpu-Split">
          <span className="jp-tpu-Name" title={user.name}>
            {user.name.split('/').pop()} · {user.state} · {user.amount}
          </span>
          {user.is_husk && (
            <>
              <span className="jp-tpu-Badge jp-mod-full">{trans.__('leftover')}</span>
              <Button
                isOff={isBusy}
                title={trans.__('It only uses quota.')}
                aria-label={trans.__(
                  'Delete %1 to free its quota',
                  user.name.split('/').pop() ?? ''
                )}
                onClick={() => onFree(user)}
              >
                {trans.__('Delete it…')}
              </Button>
            </>
          )}
        </div>
      ))}
    </>
  );
}

function useOf(quota: IQuotaLimit, trans: TranslationBundle): string {
  const { used, limit, unit } = quota;
  if (quota.is_unlimited) {
    return trans.__('%1 %2 in use, without limit', used, unit);
  }
  return limit === null
    ? trans.__('%1 %2 in use; the limit is not known', used, unit)
    : trans.__('%1 of %2 %3 in use', used, limit, unit);
}
