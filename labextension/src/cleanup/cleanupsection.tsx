import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { ICleanup, ICleanupItem, IResults } from '../api.generated';
import { Button } from '../components/button';
import { Facts } from '../components/facts';
import { Problem } from '../components/problem';
import { State } from '../components/state';
import { IRequestState, useRequest } from '../components/userequest';
import * as messages from '../messages/cleanup';
import { resourceDetails } from '../messages/cleanup';
import { IMoneyActions, ISectionProps, PartBody, Partial, Section } from '../money/section';
import { errorText } from '../problemtext';

/** Everything in the project that is billed or uses quota, no matter who created it, with buttons to delete it. */
export function CleanupSection({ model, actions, trans }: ISectionProps): JSX.Element {
  const sending = useRequest();
  const [results, setResults] = useState<IResults | null>(null);
  const end = (act: () => Promise<IResults | null>): void =>
    sending.send(async () => setResults(await act()));
  return (
    <Section
      name="cleanup"
      title={messages.title(trans)}
      isOpen={model.open.has('cleanup')}
      onToggle={actions.onToggle}
    >
      <Outcome {...{ sending, results, trans }} />
      <PartBody part={model.parts.cleanup} trans={trans}>
        {cleanup => (
          <>
            <Partial list={cleanup} trans={trans} />
            {errorText(cleanup.error) && (
              <div className="jp-tpu-Complaint">{errorText(cleanup.error)}</div>
            )}
            <Items
              cleanup={cleanup}
              isBusy={sending.isSending}
              trans={trans}
              onEnd={end}
              actions={actions}
            />
          </>
        )}
      </PartBody>
      <div className="jp-tpu-Actions">
        <Button
          kind="warn"
          isOff={sending.isSending}
          title={messages.stopEverythingHint(trans)}
          onClick={() => end(actions.onStopAll)}
        >
          {messages.stopEverything(trans)}
        </Button>
      </div>
    </Section>
  );
}

interface IOutcomeProps {
  sending: IRequestState;
  results: IResults | null;
  trans: TranslationBundle;
}

/** The result for each resource. */
function Outcome({ sending, results, trans }: IOutcomeProps): JSX.Element {
  const failed = results?.results.filter(({ ok }) => !ok) ?? [];
  const done = (results?.results.length ?? 0) - failed.length;
  return (
    <>
      {sending.problem && (
        <Problem problem={sending.problem} trans={trans} onDismiss={sending.dismiss} />
      )}
      {results && (
        <div role="status">
          {messages.outcome(done, failed.length, trans)}
          {failed.map(({ name, error }) => (
            <div key={name} className="jp-tpu-Complaint">
              {name.split('/').pop()}: {errorText(error) || messages.notDone(trans)}
            </div>
          ))}
        </div>
      )}
    </>
  );
}

interface IItemsProps {
  cleanup: ICleanup;
  isBusy: boolean;
  trans: TranslationBundle;
  onEnd: (act: () => Promise<IResults | null>) => void;
  actions: Pick<IMoneyActions, 'onCleanUp'>;
}

function Items({ cleanup, isBusy, trans, onEnd, actions }: IItemsProps): JSX.Element {
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const names = cleanup.items.map(({ name }) => name).filter(name => marked.has(name));
  // resources that are running or can be restarted must be selected one by one
  const leftovers = cleanup.items.filter(each => each.is_leftover).map(({ name }) => name);
  if (cleanup.items.length === 0) {
    return (
      <div className="jp-tpu-Muted">
        {cleanup.is_complete ? messages.none(trans) : messages.nonePartly(trans)}
      </div>
    );
  }
  const mark = (name: string, isOn: boolean): void => {
    const next = new Set(marked);
    if (isOn) {
      next.add(name);
    } else {
      next.delete(name);
    }
    setMarked(next);
  };
  return (
    <>
      <ul className="jp-tpu-Items" aria-label={messages.title(trans)}>
        {cleanup.items.map(item => (
          <li key={item.name}>
            <Item item={item} isMarked={marked.has(item.name)} trans={trans} onMark={mark} />
          </li>
        ))}
      </ul>
      <div className="jp-tpu-Actions">
        {cleanup.is_complete && leftovers.some(name => !marked.has(name)) && (
          <Button onClick={() => setMarked(new Set([...marked, ...leftovers]))}>
            {messages.selectLeftovers(trans)}
          </Button>
        )}
        <Button
          isOff={isBusy || names.length === 0}
          onClick={() => onEnd(() => actions.onCleanUp(names))}
        >
          {messages.deleteSelected(names.length, trans)}
        </Button>
      </div>
    </>
  );
}

interface IItemProps {
  item: ICleanupItem;
  isMarked: boolean;
  trans: TranslationBundle;
  onMark: (name: string, isOn: boolean) => void;
}

function Item({ item, isMarked, trans, onMark }: IItemProps): JSX.Element {
  const id = useId();
  return (
    <div className="jp-tpu-Check">
      <input
        id={id}
        type="checkbox"
        checked={isMarked}
        onChange={event => onMark(item.name, event.target.checked)}
      />
      <label htmlFor={id} className="jp-tpu-Grow">
        <span className="jp-tpu-Split">
          <strong className="jp-tpu-Name" title={item.name}>
            {item.node_id || item.name.split('/').pop()}
          </strong>
          <State state={item.state} trans={trans} />
        </span>
        <Facts className="jp-tpu-Muted" facts={resourceDetails(item, trans)} />
      </label>
    </div>
  );
}
