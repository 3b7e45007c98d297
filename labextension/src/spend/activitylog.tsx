import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import * as messages from '../messages/spend';
import { formatMoment } from '../money/moments';
import { ISectionProps, PartBody, Section } from '../money/section';
import { errorText, formatDetail } from '../problemtext';

/** Changes to spending and access, newest first, each with its reason. */
export function ActivityLogSection({ model, actions, trans }: ISectionProps): JSX.Element {
  return (
    <Section
      name="audit"
      title={messages.activityLog(trans)}
      isOpen={model.open.has('audit')}
      onToggle={actions.onToggle}
    >
      <PartBody part={model.parts.audit} trans={trans}>
        {({ entries }, now_s) =>
          entries.length === 0 ? (
            <div className="jp-tpu-Muted">{messages.noEntries(trans)}</div>
          ) : (
            <ul className="jp-tpu-Items" aria-label={messages.activityLog(trans)}>
              {entries.slice(0, 20).map((entry, index) => (
                <li key={index}>
                  <div className="jp-tpu-Split">
                    <span className="jp-tpu-Name" title={entry.subject}>
                      {messages.actionName(entry.action, trans)} · {entry.subject.split('/').pop()}
                    </span>
                    {'error' in entry.detail && (
                      <span className="jp-tpu-Badge jp-mod-full">{messages.failed(trans)}</span>
                    )}
                    <span className="jp-tpu-Muted">{formatMoment(entry.at, now_s)}</span>
                  </div>
                  {entry.reason && <div className="jp-tpu-Muted">{entry.reason}</div>}
                  {errorText(entry.detail.error) && (
                    <div className="jp-tpu-Complaint">{errorText(entry.detail.error)}</div>
                  )}
                  <Detail text={formatDetail(entry.detail)} trans={trans} />
                </li>
              ))}
            </ul>
          )
        }
      </PartBody>
    </Section>
  );
}

function Detail(props: { text: string; trans: TranslationBundle }): JSX.Element | null {
  const { text, trans } = props;
  return text ? (
    <details className="jp-tpu-Raw">
      <summary>{messages.details(trans)}</summary>
      <pre>{text}</pre>
    </details>
  ) : null;
}
