import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useMemo, useState } from 'react';
import { IAutostopHistory } from '../api.generated';
import { Canvas, Key, LineSign } from '../chart/canvas';
import { Plotter } from '../chart/drawing';
import { Table } from '../components/table';
import * as messages from '../messages/autostop';
import { activityDescription, intervalDetail, verdictName } from '../messages/autostop';
import * as common from '../messages/common';
import { formatDuration } from '../messages/units';
import { formatMoment } from '../money/moments';
import { PartBody } from '../money/section';
import { IDated, IPart } from '../money/tokens';
import { problemOf } from '../request';
import { INodeKey } from '../tokens';
import { activityData, IActivityData } from './activitydata';
import { COLOURS } from './activityplot';

/** The request for the last hour, and its chart. */
export interface IActivityHistory {
  /** Resolves with null while the panel is hidden. */
  readonly fetch: (key: INodeKey) => Promise<IDated<IAutostopHistory> | null>;
  readonly plot: Plotter<IActivityData>;
}

interface IProps {
  node: INodeKey;
  history: IActivityHistory;
  /** The last hour is requested again whenever this changes. */
  news: unknown;
  trans: TranslationBundle;
}

/** A node's activity in the last hour, as recorded by its agent. */
export function ActivityHistory({ node, history, news, trans }: IProps): JSX.Element {
  const part = useLastHour(node, history, news);
  return (
    <PartBody part={part} trans={trans}>
      {data => <LastHour data={data} name={node.node_id} plot={history.plot} trans={trans} />}
    </PartBody>
  );
}

function useLastHour(
  { zone, node_id }: INodeKey,
  history: IActivityHistory,
  news: unknown
): IPart<IAutostopHistory> {
  const [part, setPart] = useState<IPart<IAutostopHistory>>({ dated: null, problem: null });
  useEffect(() => {
    let isOld = false;
    const update = (change: Partial<IPart<IAutostopHistory>>): void =>
      isOld ? undefined : setPart(known => ({ ...known, problem: null, ...change }));
    history.fetch({ zone, node_id }).then(
      dated => dated && update({ dated }),
      error => update({ problem: problemOf(error) })
    );
    return () => {
      isOld = true;
    };
  }, [zone, node_id, history, news]);
  return part;
}

interface ILastHourProps {
  data: IAutostopHistory;
  name: string;
  plot: Plotter<IActivityData>;
  trans: TranslationBundle;
}

function LastHour({ data, name, plot, trans }: ILastHourProps): JSX.Element {
  const idle = useMemo(() => activityData(data), [data]);
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
            formatMoment(stretch.starts_at, data.now),
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

function Legend({ idle, trans }: { idle: IActivityData; trans: TranslationBundle }): JSX.Element {
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
