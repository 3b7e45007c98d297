import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { IGrant, IGrantRowUse } from '../api.generated';
import { Button } from '../components/button';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as common from '../messages/common';
import * as messages from '../messages/grants';
import { autostopRow, creditLeft, formatGrantRow } from '../messages/grants';
import { ISectionProps, Meter, PartBody, Section } from '../money/section';
import { GrantForm } from './grantform';

/** Grants and credits: their term and how much is left. */
export function GrantsSection({ model, actions, trans }: ISectionProps): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { isSending, problem, send, dismiss } = useRequest();
  return (
    <Section
      name="grants"
      title={messages.title(trans)}
      isOpen={model.open.has('grants')}
      onToggle={actions.onToggle}
    >
      <PartBody part={model.parts.grants} trans={trans}>
        {({ grants }) =>
          grants.length === 0 ? (
            <div className="jp-tpu-Muted">{messages.none(trans)}</div>
          ) : (
            <ul className="jp-tpu-Items" aria-label={messages.title(trans)}>
              {grants.map(grant => (
                <li key={grant.name}>
                  <Grant grant={grant} trans={trans} />
                  <div className="jp-tpu-Actions">
                    <Button
                      isOff={isSending}
                      aria-label={messages.removeGrant(grant.name, trans)}
                      onClick={() => send(() => actions.onRemoveGrant(grant.name))}
                    >
                      {common.remove(trans)}
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
          onParse={actions.onParseGrant}
          onSave={actions.onSaveGrant}
          onClose={() => setAsking(false)}
        />
      ) : (
        <div className="jp-tpu-Actions">
          <Button onClick={() => setAsking(true)}>{messages.addEllipsis(trans)}</Button>
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
        <span className={grant.is_over ? 'jp-tpu-Complaint' : ''}>{autostopRow(grant, trans)}</span>
      </div>
      {grant.starts_on !== null && grant.ends_on !== null && (
        <div className="jp-tpu-Muted">{messages.period(grant.starts_on, grant.ends_on, trans)}</div>
      )}
      {grant.rows.map((row, index) => (
        <Row key={index} row={row} trans={trans} />
      ))}
      {grant.kind === 'credit' && <div>{creditLeft(grant, trans)}</div>}
      {grant.error && <div className="jp-tpu-Complaint">{grant.error}</div>}
    </>
  );
}

function Row({ row, trans }: { row: IGrantRowUse; trans: TranslationBundle }): JSX.Element {
  const { chips, used, free } = row;
  const label = formatGrantRow(row, trans);
  const text =
    used === null || free === null
      ? messages.useUnknown(trans)
      : messages.usedAndFree(used, free, trans);
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
