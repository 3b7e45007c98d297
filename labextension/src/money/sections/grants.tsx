import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import { formatUsd } from '../../format';
import { IGrant, IGrantRowUse } from '../grantrecords';
import { formatGrantRow } from '../words';
import { GrantForm } from './grantform';
import { ISectionProps, Meter, PartBody, Section } from './section';

/** What was granted, how long it still holds, and how much of it is free. */
export function GrantsSection({ model, acts, trans }: ISectionProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { isSending, problem, send, dismiss } = useSending();
  return (
    <Section
      name="grants"
      title={trans.__('Grants and credit')}
      isOpen={model.open.has('grants')}
      onToggle={acts.onToggle}
    >
      <PartBody part={model.parts.grants} trans={trans}>
        {({ grants }) =>
          grants.length === 0 ? (
            <div className="jp-tpu-Muted">
              {trans.__('None is known: without one, everything is billed.')}
            </div>
          ) : (
            <ul className="jp-tpu-Items" aria-label={trans.__('Grants and credit')}>
              {grants.map(grant => (
                <li key={grant.name}>
                  <Grant grant={grant} trans={trans} />
                  <div className="jp-tpu-Actions">
                    <Button
                      isOff={isSending}
                      aria-label={trans.__('Remove the grant %1', grant.name)}
                      onClick={() => send(() => acts.onRemoveGrant(grant.name))}
                    >
                      {trans.__('Remove')}
                    </Button>
                  </div>
                </li>
              ))}
            </ul>
          )
        }
      </PartBody>
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
      {isAsking ? (
        <GrantForm
          taken={(model.parts.grants.dated?.data.grants ?? []).map(({ name }) => name)}
          trans={trans}
          onParse={acts.onParseGrant}
          onSave={acts.onSaveGrant}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button onClick={() => setAsking(true)}>{trans.__('Add a grant or credit…')}</Button>
        </div>
      )}
    </Section>
  );
}

interface IGrantProps {
  grant: IGrant;
  trans: TranslationBundle;
}

function Grant({ grant, trans }: IGrantProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Split">
        <strong className="jp-tpu-Name" title={grant.name}>
          {grant.name}
        </strong>
        <span className={grant.is_over ? 'jp-tpu-Complaint' : ''}>{leftOf(grant, trans)}</span>
      </div>
      {grant.starts_on !== null && grant.ends_on !== null && (
        <div className="jp-tpu-Muted">{trans.__('%1 to %2', grant.starts_on, grant.ends_on)}</div>
      )}
      {grant.rows.map((row, index) => (
        <Row key={index} row={row} trans={trans} />
      ))}
      {grant.kind === 'credit' && <div>{creditOf(grant, trans)}</div>}
      {grant.error && <div className="jp-tpu-Complaint">{grant.error}</div>}
    </>
  );
}

function leftOf({ is_over, ends_on, days_left }: IGrant, trans: TranslationBundle): string {
  if (is_over) {
    return trans.__('over since %1', ends_on ?? '');
  }
  return days_left === null ? '' : trans._n('%1 day left', '%1 days left', days_left);
}

function Row({ row, trans }: { row: IGrantRowUse; trans: TranslationBundle }): JSX.Element {
  const { chips, used, free } = row;
  const label = formatGrantRow(row, trans);
  const text =
    used === null || free === null
      ? trans.__('how much is used is not known')
      : trans.__('%1 used, %2 free', used, free);
  return (
    <div>
      <div>{label}</div>
      <div className="jp-tpu-Muted">{text}</div>
      {used !== null && (
        <Meter
          label={label}
          fraction={chips > 0 ? used / chips : 1}
          text={text}
          level={used >= chips ? 'full' : 'ok'}
        />
      )}
    </div>
  );
}

function creditOf({ usd, usd_used, usd_left }: IGrant, trans: TranslationBundle): string {
  const whole = usd === null ? trans.__('an unknown amount') : formatUsd(usd);
  if (usd_left === null) {
    return trans.__('%1; what is left is not known', whole);
  }
  const used = usd_used === null ? '' : trans.__(', %1 used', formatUsd(usd_used));
  return trans.__('%1 left of %2', formatUsd(usd_left), whole) + used;
}
