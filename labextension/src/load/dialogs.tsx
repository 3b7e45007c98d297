/** What the user is asked before a process that holds chips is ended. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ask } from '../components/question';
import * as common from '../messages/common';
import * as messages from '../messages/load';
import { formatSince, processName } from '../messages/load';
import { IHeld } from './holders';

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
  const others = users.map(user => user || messages.unknownUser(trans)).join(', ');
  const isAgreed = await ask(
    messages.releaseQuestion(node_id, trans),
    others ? messages.continueEllipsis(trans) : messages.release(trans),
    <Question held={held} others={others} trans={trans} />,
    trans
  );
  if (!isAgreed || !others) {
    return isAgreed;
  }
  return ask(
    messages.endForeignQuestion(others, trans),
    messages.endProcesses(held.length, trans),
    <p>{messages.endForeignConsequences(others, trans)}</p>,
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
      <p>{messages.processesEnd(held.length, trans)}</p>
      <ul className="jp-tpu-Ends">
        {held.slice(0, LONGEST).map(each => (
          <li key={`${each.worker_id} ${each.holder.pid}`}>{describe(each, trans)}</li>
        ))}
      </ul>
      {held.length > LONGEST && <p>{common.andMore(held.length - LONGEST, trans)}</p>}
      {others ? (
        <p>
          <strong>{messages.foreignProcess(others, trans)}</strong>
        </p>
      ) : (
        <>
          <p>{messages.memoryLost(trans)}</p>
          <p>{messages.outputsStay(trans)}</p>
        </>
      )}
    </>
  );
}

function describe({ worker_id, holder }: IHeld, trans: TranslationBundle): string {
  return [
    processName(holder, trans),
    messages.workerAndPid(worker_id, holder.pid, trans),
    formatSince(holder, Date.now() / 1000, trans)
  ].join(' · ');
}
