/** What the user is asked before a process that holds chips is ended. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ask } from '../components/question';
import { IHeld } from './holders';
import { formatSince, holderName } from './words';

/** More lines than this help nobody. */
const LONGEST = 20;

/** Whether to end these processes; asked twice where some of them are another user's. */
export async function confirmFree(
  node_id: string,
  held: readonly IHeld[],
  trans: TranslationBundle
): Promise<boolean> {
  const users = [
    ...new Set(held.filter(({ holder }) => !holder.is_own_user).map(({ holder }) => holder.user))
  ];
  const others = users.map(user => user || trans.__('an unknown user')).join(', ');
  const isAgreed = await ask(
    trans.__('Release the chips of %1?', node_id),
    others ? trans.__('Continue…') : trans.__('Release'),
    <Question held={held} others={others} trans={trans} />,
    trans
  );
  if (!isAgreed || !others) {
    return isAgreed;
  }
  return ask(
    trans.__('Really end what belongs to %1?', others),
    trans._n('End the process', 'End the processes', held.length),
    <p>
      {trans.__(
        'Nobody asks %1. What these processes have not saved is lost, and it cannot be undone.',
        others
      )}
    </p>,
    trans
  );
}

interface IQuestionProps {
  held: readonly IHeld[];
  others: string;
  trans: TranslationBundle;
}

function Question({ held, others, trans }: IQuestionProps): JSX.Element {
  return (
    <>
      <p>{trans._n('This process ends:', 'These %1 processes end:', held.length)}</p>
      <ul className="jp-tpu-Ends">
        {held.slice(0, LONGEST).map(each => (
          <li key={`${each.worker_id} ${each.holder.pid}`}>{describe(each, trans)}</li>
        ))}
      </ul>
      {held.length > LONGEST && <p>{trans.__('and %1 more', held.length - LONGEST)}</p>}
      {others ? (
        <p>
          <strong>
            {trans.__(
              'It belongs to %1, not to you. It is told to end, and after 3 s ended by force, as far as the system of the worker allows.',
              others
            )}
          </strong>
        </p>
      ) : (
        <>
          <p>{trans.__('What it has in memory is lost: variables, and what was not saved.')}</p>
          <p>
            {trans.__('Outputs stay in their notebooks, and in the record of what was printed.')}
          </p>
        </>
      )}
    </>
  );
}

function describe({ worker_id, holder }: IHeld, trans: TranslationBundle): string {
  return [
    holderName(holder, trans),
    trans.__('worker %1, pid %2', worker_id, holder.pid),
    formatSince(holder, Date.now() / 1000, trans)
  ].join(' · ');
}
