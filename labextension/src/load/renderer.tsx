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
import { ChipRows, ChipStrip } from './view/strip';

/** Renders the load of a READY node in its card, independently of the card. */
export interface ILoadRenderers {
  /** The chips in a closed card. */
  readonly strip: (node: INode) => JSX.Element;
  /** The chips in an open card. */
  readonly chips: (node: INode) => JSX.Element;
  /** All other metrics of the node, which are requested only when the section is opened. */
  readonly section: (node: INode) => JSX.Element;
}

/** The summary of a collapsed section, from data that is requested anyway. */
export interface IClosedSummary {
  readonly changed: ISignal<unknown, unknown>;
  readonly of: (node: INode) => string | undefined;
}

export function loadRenderers(
  model: ILoadModel,
  actions: ILoadActions,
  plot: Plotter<IHistoryView>,
  trans: TranslationBundle,
  summary: IClosedSummary | null = null
): ILoadRenderers {
  const shared = { actions, plot, trans };
  return {
    strip: node => <ChipStrip node={node} load={model.of(node)} trans={trans} />,
    chips: node => <ChipRows node={node} load={model.of(node)} trans={trans} />,
    section: node =>
      summary ? (
        <UseSignal signal={summary.changed}>
          {() => (
            <LoadSection node={node} load={model.of(node)} closed={summary.of(node)} {...shared} />
          )}
        </UseSignal>
      ) : (
        <LoadSection node={node} load={model.of(node)} {...shared} />
      )
  };
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
