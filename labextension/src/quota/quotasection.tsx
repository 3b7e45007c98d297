import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { IQuotaLimit, IQuotaUser } from '../api.generated';
import { Button } from '../components/button';
import { Check } from '../components/field';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as common from '../messages/common';
import { stateName } from '../messages/panel';
import * as messages from '../messages/quota';
import { quotaUse } from '../messages/quota';
import { quotaAmount } from '../messages/units';
import { IMoneyActions, ISectionProps, Meter, PartBody, Partial, Section } from '../money/section';
import { errorText } from '../problemtext';
import { isUsed, limitsWithRoom } from './limits';

/** The most rows in the list, so that the panel stays fast. */
const MAX_ROWS = 100;

/** The limits of the project, how much of each is used, and by what. */
export function QuotaSection({ model, actions, trans }: ISectionProps): JSX.Element {
  return (
    <Section
      name="quota"
      title={messages.title(trans)}
      isOpen={model.open.has('quota')}
      onToggle={actions.onToggle}
    >
      <PartBody part={model.parts.quota} trans={trans}>
        {quota => (
          <>
            <Partial list={quota} trans={trans} />
            {[quota.error, ...(quota.uncounted ?? [])]
              .map(errorText)
              .filter(Boolean)
              .map((text, index) => (
                <div key={index} className="jp-tpu-Notice jp-tpu-Line">
                  {text}
                </div>
              ))}
            <Limits
              limits={quota.limits}
              chosenZone={model.chosenZone}
              actions={actions}
              trans={trans}
            />
          </>
        )}
      </PartBody>
    </Section>
  );
}

interface ILimitsProps {
  limits: readonly IQuotaLimit[];
  chosenZone: string;
  actions: Pick<IMoneyActions, 'onCleanUp'>;
  trans: TranslationBundle;
}

function Limits({ limits, chosenZone, actions, trans }: ILimitsProps): JSX.Element {
  const [isAll, setAll] = useState(false);
  const { isSending, problem, send, dismiss } = useRequest();
  const shown = isAll ? limits : limits.filter(isUsed);
  const withRoom = isAll ? [] : limitsWithRoom(limits, chosenZone);
  const release = (user: IQuotaUser): void => send(() => actions.onCleanUp([user.name]));
  return (
    <>
      {limits.length > 0 && (
        <Check label={messages.showAll(limits.length, trans)} checked={isAll} onChange={setAll} />
      )}
      {shown.length === 0 && <div className="jp-tpu-Muted">{messages.none(trans)}</div>}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      <LimitList
        limits={shown}
        label={messages.limits(trans)}
        isBusy={isSending}
        trans={trans}
        onRelease={release}
      />
      {withRoom.length > 0 && (
        <details className="jp-tpu-Raw">
          <summary>{messages.unusedIn(withRoom.length, chosenZone, trans)}</summary>
          <LimitList
            limits={withRoom}
            label={messages.unusedIn(withRoom.length, chosenZone, trans)}
            isBusy={isSending}
            trans={trans}
            onRelease={release}
          />
        </details>
      )}
    </>
  );
}

interface ILimitListProps extends Omit<ILimitProps, 'limit'> {
  limits: readonly IQuotaLimit[];
  label: string;
}

function LimitList({ limits, label, ...rest }: ILimitListProps): JSX.Element {
  return (
    <>
      <ul className="jp-tpu-Items" aria-label={label}>
        {limits.slice(0, MAX_ROWS).map(limit => (
          <li key={`${limit.quota_id} ${limit.location}`}>
            <Limit limit={limit} {...rest} />
          </li>
        ))}
      </ul>
      {limits.length > MAX_ROWS && (
        <div className="jp-tpu-Muted">{common.andMore(limits.length - MAX_ROWS, rest.trans)}</div>
      )}
    </>
  );
}

interface ILimitProps {
  limit: IQuotaLimit;
  isBusy: boolean;
  trans: TranslationBundle;
  onRelease: (user: IQuotaUser) => void;
}

function Limit({ limit, isBusy, trans, onRelease }: ILimitProps): JSX.Element {
  const text = quotaUse(limit, trans);
  return (
    <>
      <div title={limit.quota_id}>
        {limit.label} · {messages.place(limit, trans)}
      </div>
      <div className="jp-tpu-Muted">{text}</div>
      {limit.limit !== null && isUsed(limit) && (
        <Meter
          label={common.inPlace(limit.label, limit.location, trans)}
          fraction={limit.limit > 0 ? limit.used / limit.limit : 1}
          text={text}
          level={limit.used >= limit.limit ? 'full' : 'ok'}
        />
      )}
      {limit.users.map(user => (
        <div key={user.name} className="jp-tpu-Split">
          <span className="jp-tpu-Name" title={user.name}>
            {user.name.split('/').pop()} · {stateName(user.state, trans)} ·{' '}
            {quotaAmount(user.amount, limit.unit, trans)}
          </span>
          {user.is_leftover && (
            <>
              <span className="jp-tpu-Badge jp-mod-full">{common.leftover(trans)}</span>
              <Button
                isOff={isBusy}
                title={messages.onlyUsesQuota(trans)}
                aria-label={messages.deleteToFree(user.name.split('/').pop() ?? '', trans)}
                onClick={() => onRelease(user)}
              >
                {common.deleteEllipsis(trans)}
              </Button>
            </>
          )}
        </div>
      ))}
    </>
  );
}
