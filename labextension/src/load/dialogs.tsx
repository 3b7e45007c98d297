/** Questions before TPU processes are ended. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { confirmAction } from '../components/confirmaction';
import * as common from '../messages/common';
import * as messages from '../messages/load';
import { formatSince, processName } from '../messages/load';
import { IWorkerProcess } from './processes';

/** The most rows in a list: more do not help to decide. */
const MAX_ROWS = 20;

/** Confirm that these processes end; asks a second time if some belong to another user. */
export async function confirmRelease(
  node_id: string,
  processes: readonly IWorkerProcess[],
  trans: TranslationBundle
): Promise<boolean> {
  const users = [
    ...new Set(
      processes.filter(({ process }) => !process.is_own_user).map(({ process }) => process.user)
    )
  ];
  const others = users.map(user => user || messages.unknownUser(trans)).join(', ');
  const isAgreed = await confirmAction(
    messages.releaseQuestion(node_id, trans),
    others ? messages.continueEllipsis(trans) : messages.release(trans),
    <Question processes={processes} others={others} trans={trans} />,
    trans
  );
  if (!isAgreed || !others) {
    return isAgreed;
  }
  return confirmAction(
    messages.endForeignQuestion(others, trans),
    messages.endProcesses(processes.length, trans),
    <p>{messages.endForeignConsequences(others, trans)}</p>,
    trans
  );
}

interface IQuestionProps {
  processes: readonly IWorkerProcess[];
  others: string;
  trans: TranslationBundle;
}

function Question({ processes, others, trans }: IQuestionProps): JSX.Element {
  return (
    <>
      <p>{messages.processesEnd(processes.length, trans)}</p>
      <ul className="jp-tpu-Ends">
        {processes.slice(0, MAX_ROWS).map(each => (
          <li key={`${each.worker_id} ${each.process.pid}`}>{describe(each, trans)}</li>
        ))}
      </ul>
      {processes.length > MAX_ROWS && <p>{common.andMore(processes.length - MAX_ROWS, trans)}</p>}
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

function describe({ worker_id, process }: IWorkerProcess, trans: TranslationBundle): string {
  return [
    processName(process, trans),
    messages.workerAndPid(worker_id, process.pid, trans),
    formatSince(process, Date.now() / 1000, trans)
  ].join(' · ');
}
