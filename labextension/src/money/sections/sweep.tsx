import { TranslationBundle } from '@jupyterlab/translation';
import { useId, useState } from 'react';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { ISending, useSending } from '../../components/sending';
import { State } from '../../components/state';
import * as messages from '../../messages/cleanup';
import { resourceDetails } from '../../messages/cleanup';
import { ISweep, ISweepItem, ISweepResults } from '../records';
import { textOf } from '../words';
import { IMoneyActs, ISectionProps, PartBody, Partial, Section } from './section';

/** Everything in the project that costs or holds quota, whoever made it, and the way to end it. */
export function SweepSection({ model, acts, trans }: ISectionProps): JSX.Element {
  const sending = useSending();
  const [results, setResults] = useState<ISweepResults | null>(null);
  const end = (act: () => Promise<ISweepResults | null>): void =>
    sending.send(async () => setResults(await act()));
  return (
    <Section
      name="sweep"
      title={messages.title(trans)}
      isOpen={model.open.has('sweep')}
      onToggle={acts.onToggle}
    >
      <Outcome {...{ sending, results, trans }} />
      <PartBody part={model.parts.sweep} trans={trans}>
        {sweep => (
          <>
            <Partial list={sweep} trans={trans} />
            {textOf(sweep.error) && <div className="jp-tpu-Complaint">{textOf(sweep.error)}</div>}
            <Items sweep={sweep} isBusy={sending.isSending} trans={trans} onEnd={end} acts={acts} />
          </>
        )}
      </PartBody>
      <div className="jp-tpu-Actions">
        <Button
          kind="warn"
          isOff={sending.isSending}
          title={messages.stopEverythingHint(trans)}
          onClick={() => end(acts.onPanic)}
        >
          {messages.stopEverything(trans)}
        </Button>
      </div>
    </Section>
  );
}

interface IOutcomeProps {
  sending: ISending;
  results: ISweepResults | null;
  trans: TranslationBundle;
}

/** How it went, for each thing that was to be ended. */
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
              {name.split('/').pop()}: {textOf(error) || messages.notDone(trans)}
            </div>
          ))}
        </div>
      )}
    </>
  );
}

interface IItemsProps {
  sweep: ISweep;
  isBusy: boolean;
  trans: TranslationBundle;
  onEnd: (act: () => Promise<ISweepResults | null>) => void;
  acts: Pick<IMoneyActs, 'onSweep'>;
}

function Items({ sweep, isBusy, trans, onEnd, acts }: IItemsProps): JSX.Element {
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const names = sweep.items.map(({ name }) => name).filter(name => marked.has(name));
  if (sweep.items.length === 0) {
    return (
      <div className="jp-tpu-Muted">
        {sweep.is_complete ? messages.none(trans) : messages.nonePartly(trans)}
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
        {sweep.items.map(item => (
          <li key={item.name}>
            <Item item={item} isMarked={marked.has(item.name)} trans={trans} onMark={mark} />
          </li>
        ))}
      </ul>
      <div className="jp-tpu-Actions">
        {sweep.is_complete && names.length < sweep.items.length && (
          <Button onClick={() => setMarked(new Set(sweep.items.map(({ name }) => name)))}>
            {messages.selectAll(trans)}
          </Button>
        )}
        <Button
          isOff={isBusy || names.length === 0}
          onClick={() => onEnd(() => acts.onSweep(names))}
        >
          {messages.deleteSelected(names.length, trans)}
        </Button>
      </div>
    </>
  );
}

interface IItemProps {
  item: ISweepItem;
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
          <State state={item.state} />
        </span>
        <span className="jp-tpu-Muted">{resourceDetails(item, trans)}</span>
      </label>
    </div>
  );
}
