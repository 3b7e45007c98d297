import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useState } from 'react';
import { ICoverage, IOffer, IQuotaAfter, IQuotasAfter, Provisioning } from '../api.generated';
import * as messages from '../messages/create';
import { quotaLeft } from '../messages/create';
import { IChoice } from '../money/client';
import { errorText } from '../problemtext';
import { problemOf } from '../request';
import { IProblem } from '../tokens';
import { ICreateActions } from './draft';
import { Price } from './price';

/** Wait until the user pauses, so that typing causes one request. */
const DEBOUNCE_MS = 300;

interface IProps {
  choice: IChoice & { readonly provisioning: Provisioning };
  offer: IOffer;
  emulated: boolean;
  actions: Pick<ICreateActions, 'coverage' | 'quotaAfter'>;
  trans: TranslationBundle;
}

/** Price and quota of a choice, shown before it is made. */
export function ChoiceNotice(props: IProps): JSX.Element {
  const { choice, offer, emulated, actions, trans } = props;
  const coverage = useAnswer(choice, actions.coverage);
  const quota = useAnswer(choice, actions.quotaAfter);
  return (
    <div className="jp-tpu-Price" role="status" aria-label={messages.choiceSummary(trans)}>
      <Price
        offer={offer}
        provisioning={choice.provisioning}
        emulated={emulated}
        coverage={coverage.data ?? undefined}
        trans={trans}
      />
      <Loaded answer={coverage} what={messages.billing(trans)} trans={trans}>
        {data => <NotIncluded coverage={data} trans={trans} />}
      </Loaded>
      <Loaded answer={quota} what={messages.quota(trans)} trans={trans}>
        {quotas => <Quotas quotas={quotas} trans={trans} />}
      </Loaded>
    </div>
  );
}

interface IAnswer<T> {
  data: T | null;
  problem: IProblem | null;
}

/** The response to a choice, a moment after its last change; never to an older choice. */
function useAnswer<T>(choice: IChoice, load: (choice: IChoice) => Promise<T>): IAnswer<T> {
  const { zone, accelerator_type, provisioning } = choice;
  const [answer, setAnswer] = useState<IAnswer<T>>({ data: null, problem: null });
  useEffect(() => {
    let isCurrent = true;
    const update = (next: IAnswer<T>): void => {
      if (isCurrent) {
        setAnswer(next);
      }
    };
    update({ data: null, problem: null });
    const timer = window.setTimeout(() => {
      load({ zone, accelerator_type, provisioning }).then(
        data => update({ data, problem: null }),
        error => update({ data: null, problem: problemOf(error) })
      );
    }, DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [zone, accelerator_type, provisioning, load]);
  return answer;
}

interface ILoadedProps<T> {
  answer: IAnswer<T>;
  what: string;
  trans: TranslationBundle;
  children: (data: T) => React.ReactNode;
}

function Loaded<T>({ answer, what, trans, children }: ILoadedProps<T>): JSX.Element {
  const { data, problem } = answer;
  if (data !== null) {
    return <div>{children(data)}</div>;
  }
  return (
    <div className="jp-tpu-Muted">
      {problem
        ? messages.notKnown(what, problem.message || problem.code, trans)
        : messages.loadingPart(what, trans)}
    </div>
  );
}

interface ICoverageProps {
  coverage: ICoverage;
  trans: TranslationBundle;
}

function NotIncluded({ coverage, trans }: ICoverageProps): JSX.Element | null {
  const besides = coverage.not_covered.map(errorText).filter(Boolean);
  return besides.length > 0 ? (
    <details className="jp-tpu-Raw">
      <summary>{messages.notIncluded(trans)}</summary>
      <ul>
        {besides.map((text, index) => (
          <li key={index}>{text}</li>
        ))}
      </ul>
    </details>
  ) : null;
}

function Quotas({
  quotas,
  trans
}: {
  quotas: IQuotasAfter;
  trans: TranslationBundle;
}): JSX.Element {
  const error = errorText(quotas.error);
  return (
    <>
      {error && <div className="jp-tpu-Muted">{messages.quotaIncomplete(error, trans)}</div>}
      {quotas.rows.map(row => (
        <After key={`${row.quota_id} ${row.location}`} row={row} trans={trans} />
      ))}
    </>
  );
}

function After({ row, trans }: { row: IQuotaAfter; trans: TranslationBundle }): JSX.Element {
  return (
    <div className={row.fits === false ? 'jp-tpu-Complaint' : 'jp-tpu-Muted'} title={row.quota_id}>
      {row.label} · {row.location}: {quotaLeft(row, trans)}
    </div>
  );
}
