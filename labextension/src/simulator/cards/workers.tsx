import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Button } from '../../components/button';
import * as messages from '../../messages/simulator';
import { IWorkerChoice, workerChoices, workerState } from '../faults';
import { ICardProps } from '../page';
import { IWorker, placeOf } from '../records';
import { Card, Rows } from './card';

/** The workers' machines, which can be killed, slowed, frozen and disconnected from worker 0. */
export function WorkersCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.workers(trans)}>
      <Rows
        label={messages.workers(trans)}
        empty={messages.noWorker(trans)}
        items={cloud.workers}
        keyOf={keyOf}
        trans={trans}
      >
        {worker => (
          <WorkerRow
            worker={worker}
            state={workerState(worker.faults, trans)}
            groupOf={name => messages.machineOf(name, trans)}
            labelOf={(action, name) => messages.actOnWorker(action, name, trans)}
            choices={workerChoices(worker.worker_id, trans)}
            onChoose={([request]) => actions.onFaultWorker(worker, request)}
            trans={trans}
          />
        )}
      </Rows>
    </Card>
  );
}

export function keyOf({ node, worker_id }: Pick<IWorker, 'node' | 'worker_id'>): string {
  return `${node} ${worker_id}`;
}

interface IWorkerRowProps {
  worker: { readonly faults: readonly unknown[] } & Pick<IWorker, 'node' | 'worker_id'>;
  state: string;
  /** The label of the buttons' group, from the name of the worker. */
  groupOf: (name: string) => string;
  /** The label of a button for screen readers, from its text and the name of the worker. */
  labelOf: (action: string, name: string) => string;
  choices: readonly IWorkerChoice[];
  onChoose: (requests: IWorkerChoice['requests']) => void;
  trans: TranslationBundle;
}

/** A worker, its state, and the buttons that cause its failures. */
export function WorkerRow(props: IWorkerRowProps): JSX.Element {
  const { worker, state, groupOf, labelOf, choices, onChoose, trans } = props;
  const { id } = placeOf(worker.node);
  const name = messages.workerOf(id, worker.worker_id, trans);
  return (
    <>
      <div className="jp-tpu-Node-line">
        <span className="jp-tpu-Node-name" title={worker.node}>
          {id}
        </span>
        <span className="jp-tpu-Worker">{messages.worker(worker.worker_id, trans)}</span>
        <span className={worker.faults.length > 0 ? 'jp-tpu-Broken' : 'jp-tpu-Muted'}>{state}</span>
      </div>
      <div className="jp-tpu-Actions" role="group" aria-label={groupOf(name)}>
        {choices.map(({ id, label, title, requests }) => (
          <Button
            key={id}
            title={title}
            aria-label={labelOf(label, name)}
            onClick={() => onChoose(requests)}
          >
            {label}
          </Button>
        ))}
      </div>
    </>
  );
}
