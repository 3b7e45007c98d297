import { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { startTransition, useCallback, useEffect, useId, useRef, useState } from 'react';
import { IMetrics, ISample, IWorkerMetrics } from '../../api.generated';
import { Button } from '../../components/button';
import { useNow } from '../../components/now';
import { useIsVisible } from '../../components/visibility';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { formatDuty, formatTotals } from '../../messages/load';
import { formatDuration } from '../../messages/units';
import { serverNow } from '../../money/model';
import { IDated } from '../../money/tokens';
import { errorText } from '../../problemtext';
import { percentOf, totalsOf } from '../totals';
import { Spark } from './bar';
import { Chips } from './chips';
import { Host } from './host';

/** The number of workers up to which all are expanded at first. */
const EXPANDED_WORKERS = 2;
/** The age from which a sample is out of date, in seconds; requests are sent once a second. */
const STALE_AFTER_S = 5;
/** Seconds between two renderings of a worker that is not visible. */
const OUT_OF_SIGHT_S = 32;
/** Estimated height of a core that is not rendered yet, in em. */
const CORE_EM = 8;

interface IProps {
  dated: IDated<IMetrics>;
  trans: TranslationBundle;
}

/** All workers of a node: a single one is shown whole, several as rows that expand. */
export function Workers({ dated, trans }: IProps): JSX.Element {
  const { workers } = dated.data;
  const [open, setOpen] = useState<ReadonlySet<number>>(
    () =>
      new Set(workers.length <= EXPANDED_WORKERS ? workers.map(({ worker_id }) => worker_id) : [])
  );
  const toggle = useCallback((id: number) => setOpen(before => toggled(before, id)), []);
  if (workers.length === 1) {
    return <WorkerBody worker={workers[0]} dated={dated} where="" trans={trans} />;
  }
  const ids = workers.map(({ worker_id }) => worker_id);
  const isAll = open.size === ids.length;
  return (
    <>
      <div className="jp-tpu-Actions">
        <Button onClick={() => startTransition(() => setOpen(new Set(isAll ? [] : ids)))}>
          {isAll ? messages.collapseAll(trans) : messages.expandAll(trans)}
        </Button>
      </div>
      <ul className="jp-tpu-Workers" aria-label={messages.workers(trans)}>
        {workers.map(worker => (
          <Worker
            key={worker.worker_id}
            worker={worker}
            isOpen={open.has(worker.worker_id)}
            dated={dated}
            trans={trans}
            onToggle={toggle}
          />
        ))}
      </ul>
    </>
  );
}

function toggled(open: ReadonlySet<number>, worker_id: number): ReadonlySet<number> {
  const next = new Set(open);
  if (!next.delete(worker_id)) {
    next.add(worker_id);
  }
  return next;
}

interface IWorkerProps extends IProps {
  worker: IWorkerMetrics;
  isOpen: boolean;
  onToggle: (worker_id: number) => void;
}

/** A worker. While visible it is rendered each second, otherwise less often: a slice may have hundreds of cores. */
function Worker(props: IWorkerProps): JSX.Element {
  const element = useRef<HTMLLIElement>(null);
  const isVisible = useIsVisible(element, true);
  const turn = Math.floor(props.dated.server_s) + props.worker.worker_id;
  return (
    <li ref={element} className="jp-tpu-Worker">
      <MemoizedWorker {...props} isDue={isVisible || turn % OUT_OF_SIGHT_S === 0} />
    </li>
  );
}

interface IMemoizedProps extends IWorkerProps {
  isDue: boolean;
}

const MemoizedWorker = React.memo(
  WorkerLine,
  (before, after) => !after.isDue && before.isOpen === after.isOpen
);

function WorkerLine({ worker, isOpen, dated, trans, onToggle }: IMemoizedProps): JSX.Element {
  const id = useId();
  const { worker_id, hostname, sample } = worker;
  const totals = totalsOf(sample ? [sample] : []);
  const Caret = (isOpen ? caretDownIcon : caretRightIcon).react;
  return (
    <>
      <button
        type="button"
        className="jp-tpu-Head jp-tpu-Worker-head"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        title={[hostname, formatTotals(totals, trans)].filter(Boolean).join('\n')}
        onClick={() => onToggle(worker_id)}
      >
        <Caret tag="span" className="jp-tpu-Section-caret" aria-hidden="true" />
        <span>{messages.workerTitle(worker_id, trans)}</span>
        {sample && <Sparks sample={sample} />}
        <span className="jp-tpu-Load-summary">
          {worker.error ? messages.noNewData(trans) : formatDuty(totals, trans)}
        </span>
      </button>
      {isOpen && (
        <OpenBody
          id={id}
          worker={worker}
          dated={dated}
          where={messages.worker(worker_id, trans)}
          trans={trans}
        />
      )}
    </>
  );
}

/** The body of an expanded worker, rendered once it is first visible, because few of them are in view. */
function OpenBody({ id, ...rest }: IBodyProps & { id: string }): JSX.Element {
  const { hostname, sample } = rest.worker;
  const element = useRef<HTMLDivElement>(null);
  const isVisible = useIsVisible(element, false);
  const [wasSeen, setSeen] = useState(false);
  useEffect(() => setSeen(before => before || isVisible), [isVisible]);
  return (
    <div
      ref={element}
      id={id}
      className="jp-tpu-Worker-body"
      style={{ minHeight: wasSeen ? undefined : `${(sample?.cores.length ?? 0) * CORE_EM}em` }}
    >
      {wasSeen && (
        <>
          {hostname && <div className="jp-tpu-Muted">{hostname}</div>}
          <WorkerBody {...rest} />
        </>
      )}
    </div>
  );
}

function Sparks({ sample }: { sample: ISample }): JSX.Element {
  return (
    <>
      <Spark kind="duty" percents={sample.chips.map(chip => chip.duty_percent)} />
      <Spark
        kind="hbm"
        percents={sample.cores.map(core => percentOf(core.hbm_used_bytes, core.hbm_total_bytes))}
      />
    </>
  );
}

interface IBodyProps extends IProps {
  worker: IWorkerMetrics;
  where: string;
}

function WorkerBody({ worker, dated, where, trans }: IBodyProps): JSX.Element {
  const { sample, error, as_of } = worker;
  const isOld = as_of !== null && dated.server_s - as_of > STALE_AFTER_S;
  return (
    <>
      {error && (
        <div className="jp-tpu-Notice jp-tpu-Line" title={error.raw}>
          {[error.message || error.code, errorText(error.hint)].filter(Boolean).join(' ')}
        </div>
      )}
      {as_of !== null && (isOld || error) && <Age as_of={as_of} dated={dated} trans={trans} />}
      {sample ? (
        <>
          <Chips sample={sample} where={where} trans={trans} />
          <Host sample={sample} where={where} trans={trans} />
        </>
      ) : (
        !error && <div className="jp-tpu-Muted">{messages.noMeasurements(trans)}</div>
      )}
    </>
  );
}

/** The age of the values, updated each second. */
function Age({ as_of, dated, trans }: IProps & { as_of: number }): JSX.Element {
  const now_s = serverNow(dated, useNow());
  return (
    <div className="jp-tpu-Muted">
      {common.lastUpdated(formatDuration(now_s - as_of, trans), trans)}
    </div>
  );
}
