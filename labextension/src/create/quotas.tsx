import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IQuotaAfter, IQuotasAfter } from '../api.generated';
import * as messages from '../messages/create';
import { quotaLeft } from '../messages/create';
import { errorText } from '../problemtext';
import { IAnswer } from './answer';

interface IProps {
  answer: IAnswer<IQuotasAfter>;
  trans: TranslationBundle;
}

/** The quota that a choice leaves, for each quota that it uses and does not exceed. */
export function Quotas({ answer, trans }: IProps): JSX.Element {
  const { data, problem } = answer;
  if (data === null) {
    const what = messages.quota(trans);
    return (
      <div className="jp-tpu-Muted">
        {problem
          ? messages.notKnown(what, problem.message || problem.code, trans)
          : messages.loadingPart(what, trans)}
      </div>
    );
  }
  const error = errorText(data.error);
  return (
    <div>
      {error && <div className="jp-tpu-Muted">{messages.quotaIncomplete(error, trans)}</div>}
      {data.rows.filter(fits).map(row => (
        <After key={`${row.quota_id} ${row.location}`} row={row} trans={trans} />
      ))}
    </div>
  );
}

/** Whether the choice may fit into the quota. */
function fits(row: IQuotaAfter): boolean {
  return row.fits !== false;
}

/** The quotas that the choice exceeds. */
export function Exceeded({ answer, trans }: IProps): JSX.Element {
  return (
    <>
      {answer.data?.rows
        .filter(row => !fits(row))
        .map(row => (
          <After key={`${row.quota_id} ${row.location}`} row={row} trans={trans} />
        ))}
    </>
  );
}

function After({ row, trans }: { row: IQuotaAfter; trans: TranslationBundle }): JSX.Element {
  return (
    <div className={fits(row) ? 'jp-tpu-Muted' : 'jp-tpu-Complaint'}>
      {row.label} · {row.location}: {quotaLeft(row, trans)}
    </div>
  );
}
