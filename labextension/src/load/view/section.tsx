import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';
import { IMetrics, INode } from '../../api.generated';
import { Plotter } from '../../chart/drawing';
import { Collapsible } from '../../components/collapsible';
import { useNow } from '../../components/now';
import { LoadProblem } from '../../components/problem';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { formatNode, formatTotals } from '../../messages/load';
import { formatDuration } from '../../messages/units';
import { serverNow } from '../../money/model';
import { IHistoryView } from '../plot';
import { INodeLoad } from '../tokens';
import { samplesOf, totalsOf } from '../totals';
import { History } from './history';
import { ILoadActions, TpuProcesses } from './processes';
import { Workers } from './workers';

interface IProps {
  node: INode;
  load: INodeLoad;
  /** Summary of the collapsed section, which requests nothing. */
  closed?: string;
  actions: ILoadActions;
  plot: Plotter<IHistoryView>;
  trans: TranslationBundle;
}

/** How busy a node is, chip by chip. A collapsed section requests nothing. */
export function LoadSection(props: IProps): JSX.Element {
  const { node, load, closed, trans } = props;
  const [isOpen, setOpen] = useState(false);
  const workers = node.workers.length;
  useEffect(() => {
    const subscribe = isOpen ? load.subscribe(workers) : null;
    return () => subscribe?.dispose();
  }, [load, isOpen, workers]);
  return (
    <UseSignal signal={load.changed}>
      {() => (
        <Collapsible
          title={messages.title(trans)}
          label={messages.loadOf(node.node_id, trans)}
          summary={isOpen ? summaryOf(load, trans) : closed}
          isOpen={isOpen}
          onToggle={() => setOpen(!isOpen)}
        >
          <Body {...props} />
        </Collapsible>
      )}
    </UseSignal>
  );
}

/** The summary, from recent values only, because it shows no age. */
function summaryOf({ part }: INodeLoad, trans: TranslationBundle): string | undefined {
  const { dated, problem } = part;
  return dated && !problem ? formatTotals(totalsOf(samplesOf(dated.data)), trans) : undefined;
}

function Body(props: IProps): JSX.Element {
  const { node, load, actions, plot, trans } = props;
  const { dated, problem } = load.part;
  return (
    <>
      {problem && <LoadProblem problem={problem} isEmpty={!dated} trans={trans} />}
      {problem && dated && <Outdated dated={dated} trans={trans} />}
      {!dated && !problem && (
        <div className="jp-tpu-Muted" role="status">
          {common.loading(trans)}
        </div>
      )}
      {dated && (
        <>
          <NodeSummary metrics={dated.data} trans={trans} />
          <TpuProcesses
            node={node}
            metrics={dated.data}
            isReleasing={load.isReleasing}
            now_s={dated.server_s}
            actions={actions}
            trans={trans}
          />
          <History series={load.series} name={node.node_id} plot={plot} trans={trans} />
          <Workers dated={dated} trans={trans} />
        </>
      )}
    </>
  );
}

function NodeSummary({
  metrics,
  trans
}: {
  metrics: IMetrics;
  trans: TranslationBundle;
}): JSX.Element {
  return (
    <>
      <div>{formatNode(metrics, trans)}</div>
      {metrics.workers.length === 0 && (
        <div className="jp-tpu-Muted">{messages.noWorkerAnswered(trans)}</div>
      )}
    </>
  );
}

interface IOldProps {
  dated: NonNullable<INodeLoad['part']['dated']>;
  trans: TranslationBundle;
}

function Outdated({ dated, trans }: IOldProps): JSX.Element {
  const age = serverNow(dated, useNow()) - (dated.data.as_of ?? dated.server_s);
  return (
    <div className="jp-tpu-Muted">{common.lastUpdated(formatDuration(age, trans), trans)}</div>
  );
}
