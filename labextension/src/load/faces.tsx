import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { Plotter } from '../chart/drawing';
import { INode } from '../tokens';
import { IPast } from './plot';
import { ILoadModel, LoadCommandIDs } from './tokens';
import { ILoadActs } from './view/holders';
import { LoadSection } from './view/section';

/** The load of a node, in its row of the panel; each is drawn anew by itself. */
export type LoadFace = (node: INode) => JSX.Element | null;

/** Only a node that runs can be asked. */
export function loadFace(
  model: ILoadModel,
  acts: ILoadActs,
  plot: Plotter<IPast>,
  trans: TranslationBundle
): LoadFace {
  return node =>
    node.state === 'READY' ? (
      <LoadSection node={node} load={model.of(node)} acts={acts} plot={plot} trans={trans} />
    ) : null;
}

export function loadActs(commands: CommandRegistry): ILoadActs {
  return {
    onFree: ({ zone, node_id }, held) => {
      const meant = held.map(({ worker_id, holder }) => ({ worker_id, pid: holder.pid }));
      const done = commands.execute(LoadCommandIDs.free, { zone, node_id, held: meant });
      return done as Promise<string | null>;
    }
  };
}
