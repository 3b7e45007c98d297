import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ISignal } from '@lumino/signaling';
import React from 'react';
import { INode } from '../api.generated';
import { Plotter } from '../chart/drawing';
import { IHistoryView } from './plot';
import { ILoadModel, LoadCommandIDs } from './tokens';
import { ILoadActions } from './view/processes';
import { LoadSection } from './view/section';

/** Renders the load of a node in its row, independently of the row. */
export type LoadRenderer = (node: INode) => JSX.Element | null;

/** The summary of a collapsed section, from data that is requested anyway. */
export interface IClosedSummary {
  readonly changed: ISignal<unknown, unknown>;
  readonly of: (node: INode) => string | undefined;
}

/** Only a READY node has load. */
export function loadRenderer(
  model: ILoadModel,
  actions: ILoadActions,
  plot: Plotter<IHistoryView>,
  trans: TranslationBundle,
  summary: IClosedSummary | null = null
): LoadRenderer {
  const shared = { actions, plot, trans };
  return node =>
    node.state !== 'READY' ? null : summary ? (
      <UseSignal signal={summary.changed}>
        {() => (
          <LoadSection node={node} load={model.of(node)} closed={summary.of(node)} {...shared} />
        )}
      </UseSignal>
    ) : (
      <LoadSection node={node} load={model.of(node)} {...shared} />
    );
}

export function loadActions(commands: CommandRegistry): ILoadActions {
  return {
    onRelease: ({ zone, node_id }, processes) => {
      const keys = processes.map(({ worker_id, process }) => ({ worker_id, pid: process.pid }));
      const done = commands.execute(LoadCommandIDs.release, { zone, node_id, processes: keys });
      return done as Promise<string | null>;
    }
  };
}
