import { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useMemo, useState } from 'react';
import { Canvas, Key, LineSign } from '../../chart/canvas';
import { Plotter } from '../../chart/drawing';
import * as messages from '../../messages/autostop';
import { activityDescription, intervalDetail, verdictName } from '../../messages/autostop';
import * as common from '../../messages/common';
import { formatDuration } from '../../messages/units';
import { problemOf } from '../../request';
import { INodeKey } from '../../tokens';
import { clockTime } from '../moments';
import { IBrakesPast } from '../pastrecords';
import { PartBody } from '../sections/section';
import { IDated, IPart } from '../tokens';
import { COLOURS } from './idleplot';
import { idleOf, IIdle } from './idlewords';
import { Table } from './tables';

/** How the last hour is asked for and drawn. */
export interface IIdlePast {
  /** Resolves with null while nobody looks at the panel. */
  readonly ask: (key: INodeKey) => Promise<IDated<IBrakesPast> | null>;
  readonly plot: Plotter<IIdle>;
}

interface IProps {
  node: INodeKey;
  past: IIdlePast;
  /** When this changes, it is worth asking again. */
  news: unknown;
  trans: TranslationBundle;
}

/** How the node was in the last hour, as the guard on it saw it. Asked for with each news of the brakes. */
export function IdlePast({ node, past, news, trans }: IProps): JSX.Element {
  const part = useLastHour(node, past, news);
  return (
    <PartBody part={part} trans={trans}>
      {data => <LastHour data={data} name={node.node_id} plot={past.plot} trans={trans} />}
    </PartBody>
  );
}

function useLastHour(
  { zone, node_id }: INodeKey,
  past: IIdlePast,
  news: unknown
): IPart<IBrakesPast> {
  const [part, setPart] = useState<IPart<IBrakesPast>>({ dated: null, problem: null });
  useEffect(() => {
    let isOld = false;
    const take = (change: Partial<IPart<IBrakesPast>>): void =>
      isOld ? undefined : setPart(known => ({ ...known, problem: null, ...change }));
    past.ask({ zone, node_id }).then(
      dated => dated && take({ dated }),
      error => take({ problem: problemOf(error) })
    );
    return () => {
      isOld = true;
    };
  }, [zone, node_id, past, news]);
  return part;
}

interface ILastHourProps {
  data: IBrakesPast;
  name: string;
  plot: Plotter<IIdle>;
  trans: TranslationBundle;
}

function LastHour({ data, name, plot, trans }: ILastHourProps): JSX.Element {
  const idle = useMemo(() => idleOf(data), [data]);
  const title = messages.lastHourOf(name, trans);
  if (data.why_unknown !== null) {
    return <div className="jp-tpu-Muted">{messages.lastHourUnknown(data.why_unknown, trans)}</div>;
  }
  return (
    <figure className="jp-tpu-History" aria-label={title}>
      <Canvas
        what={idle}
        label={common.labelled(title, activityDescription(data, trans), trans)}
        plot={plot}
      />
      <Legend idle={idle} trans={trans} />
      <Table
        title={title}
        head={[messages.from(trans), messages.duration(trans), messages.activity(trans)]}
        rows={[...data.stretches].reverse().map(stretch => {
          const detail = intervalDetail(stretch, trans);
          const state = verdictName(stretch.verdict, trans);
          return [
            clockTime(stretch.starts_at),
            formatDuration(stretch.ends_at - stretch.starts_at, trans),
            detail ? common.labelled(state, detail, trans) : state
          ];
        })}
        none={messages.noData(trans)}
        trans={trans}
      />
    </figure>
  );
}

function Legend({ idle, trans }: { idle: IIdle; trans: TranslationBundle }): JSX.Element {
  const verdicts = (['busy', 'idle', 'unknown'] as const).filter(verdict =>
    idle.stretches.some(stretch => stretch.verdict === verdict)
  );
  return (
    <figcaption>
      {verdicts.map(verdict => (
        <Key key={verdict} sign={<StripSign verdict={verdict} />}>
          {verdictName(verdict, trans)}
        </Key>
      ))}
      {idle.level.some(level => level !== null) && (
        <Key sign={<LineSign colour={COLOURS.level} dash={[]} />}>
          {messages.shareOfIdleTimeout(trans)}
        </Key>
      )}
    </figcaption>
  );
}

function StripSign({ verdict }: { verdict: 'busy' | 'idle' | 'unknown' }): JSX.Element {
  const colour = `var(${COLOURS[verdict]})`;
  return verdict === 'unknown' ? (
    <path d="M1 10L11 0M6 10L16 0M11 10L20 1" style={{ stroke: colour }} />
  ) : (
    <rect width="20" height="10" style={{ fill: colour }} />
  );
}
