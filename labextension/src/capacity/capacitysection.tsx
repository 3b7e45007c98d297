import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IAttempt, IQueued, ISearch } from '../api.generated';
import { Button } from '../components/button';
import { Problem } from '../components/problem';
import { State } from '../components/state';
import { IRequestState, useRequest } from '../components/userequest';
import * as messages from '../messages/capacity';
import { outcomeName, phaseName, queuedDetails } from '../messages/capacity';
import * as common from '../messages/common';
import { provisioningName } from '../messages/units';
import { formatMoment } from '../money/moments';
import { IMoneyActions, ISectionProps, PartBody, Partial, Section } from '../money/section';
import { errorText } from '../problemtext';

/** Searches and queued resources, with their attempts and refusals. */
export function CapacitySection({ model, actions, trans }: ISectionProps): JSX.Element {
  const sending = useRequest();
  const searches = model.parts.searches.dated?.data.searches ?? [];
  const queued = model.parts.queue.dated?.data;
  const isEmpty = searches.length === 0 && queued?.is_complete && queued.items.length === 0;
  const running = searches.filter(({ phase }) => phase === 'trying').length;
  return (
    <Section
      name="capacity"
      title={messages.title(trans)}
      summary={running ? messages.running(running, trans) : undefined}
      isOpen={model.open.has('capacity')}
      onToggle={actions.onToggle}
    >
      {sending.problem && (
        <Problem problem={sending.problem} trans={trans} onDismiss={sending.dismiss} />
      )}
      <h4>{messages.searches(trans)}</h4>
      <PartBody part={model.parts.searches} trans={trans}>
        {({ searches }, now_s) =>
          searches.length === 0 ? (
            <div className="jp-tpu-Muted">{messages.noSearches(trans)}</div>
          ) : (
            <ul className="jp-tpu-Items" aria-label={messages.searches(trans)}>
              {searches.map(search => (
                <li key={search.search_id}>
                  <Search {...{ search, now_s, actions, sending, trans }} />
                </li>
              ))}
            </ul>
          )
        }
      </PartBody>
      <h4>{messages.queuedResources(trans)}</h4>
      <PartBody part={model.parts.queue} trans={trans}>
        {(queue, now_s) => (
          <>
            <Partial list={queue} trans={trans} />
            {queue.items.length === 0 && queue.is_complete && (
              <div className="jp-tpu-Muted">{messages.noQueued(trans)}</div>
            )}
            <ul className="jp-tpu-Items" aria-label={messages.queuedResources(trans)}>
              {queue.items.map(queued => (
                <li key={queued.name}>
                  <Queued {...{ queued, now_s, actions, sending, trans }} />
                </li>
              ))}
            </ul>
          </>
        )}
      </PartBody>
      {isEmpty && (
        <div className="jp-tpu-Empty">
          <p className="jp-tpu-Muted">{messages.startInForm(trans)}</p>
          <Button onClick={actions.onOpenForm}>{common.createNode(trans)}</Button>
        </div>
      )}
    </Section>
  );
}

interface IRowProps {
  now_s: number;
  actions: IMoneyActions;
  sending: IRequestState;
  trans: TranslationBundle;
}

function Search(props: IRowProps & { search: ISearch }): JSX.Element {
  const { search, now_s, actions, sending, trans } = props;
  return (
    <>
      <div className="jp-tpu-Split">
        <strong className="jp-tpu-Name" title={search.node_id}>
          {search.node_id}
        </strong>
        <span>{phaseName(search.phase, trans)}</span>
      </div>
      {search.message && <div className="jp-tpu-Muted">{search.message}</div>}
      <ol className="jp-tpu-Tries" aria-label={messages.attempts(search.node_id, trans)}>
        {search.tries.map((one, index) => (
          <li key={index}>
            <Attempt one={one} now_s={now_s} trans={trans} />
          </li>
        ))}
      </ol>
      {search.phase === 'trying' && (
        <div className="jp-tpu-Actions">
          <Button
            isOff={sending.isSending}
            aria-label={messages.cancelSearch(search.node_id, trans)}
            onClick={() => sending.send(() => actions.onCancelSearch(search.search_id))}
          >
            {common.cancel(trans)}
          </Button>
        </div>
      )}
    </>
  );
}

interface IAttemptProps {
  one: IAttempt;
  now_s: number;
  trans: TranslationBundle;
}

function Attempt({ one, now_s, trans }: IAttemptProps): JSX.Element {
  const terms = provisioningName(one, trans);
  const where = [one.accelerator_type, one.zone, terms].filter(Boolean).join(' · ');
  return (
    <>
      <div>
        {where}: <strong>{outcomeName(one.outcome, trans)}</strong>
        {one.at !== null && <span className="jp-tpu-Muted"> · {formatMoment(one.at, now_s)}</span>}
      </div>
      {one.message && <div className="jp-tpu-Muted">{one.message}</div>}
      {one.raw && (
        <details className="jp-tpu-Raw">
          <summary>{common.originalMessage(trans)}</summary>
          <pre>{one.raw}</pre>
        </details>
      )}
    </>
  );
}

function Queued(props: IRowProps & { queued: IQueued }): JSX.Element {
  const { queued, now_s, actions, sending, trans } = props;
  const error = errorText(queued.error);
  return (
    <>
      <div className="jp-tpu-Split">
        <strong className="jp-tpu-Name" title={queued.name}>
          {queued.queued_id}
        </strong>
        <State state={queued.state} trans={trans} />
      </div>
      <div className="jp-tpu-Muted">{queuedDetails(queued, now_s, trans)}</div>
      {error && <div className="jp-tpu-Complaint">{error}</div>}
      <div className="jp-tpu-Actions">
        <Button
          isOff={sending.isSending || queued.state === 'DELETING'}
          aria-label={messages.removeQueued(queued.queued_id, trans)}
          onClick={() => sending.send(() => actions.onRemoveQueued(queued.zone, queued.queued_id))}
        >
          {common.remove(trans)}
        </Button>
      </div>
    </>
  );
}
