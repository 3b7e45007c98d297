import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ISignal } from '@lumino/signaling';
import { Plotter } from '../chart/drawing';
import { INode } from '../tokens';
import { IPast } from './plot';
import { ILoadModel, LoadCommandIDs } from './tokens';
import { ILoadActs } from './view/holders';
import { LoadSection } from './view/section';

/** The load of a node, in its row of the panel; each is drawn anew by itself. */
export type LoadFace = (node: INode) => JSX.Element | null;

/** What is said of a node's chips while nobody looks at them. */
export interface IGlance {
  readonly changed: ISignal<unknown, unknown>;
  readonly of: (node: INode) => string | undefined;
}

/** Only a node that runs can be asked. */
export function loadFace(
  model: ILoadModel,
  acts: ILoadActs,
  plot: Plotter<IPast>,
  trans: TranslationBundle,
  glance: IGlance | null = null
): LoadFace {
  const shared = { acts, plot, trans };
  return node =>
    node.state !== 'READY' ? null : glance ? (
      <UseSignal signal={glance.changed}>
        {() => (
          <LoadSection node={node} load={model.of(node)} closed={glance.of(node)} {...shared} />
        )}
      </UseSignal>
    ) : (
      <LoadSection node={node} load={model.of(node)} {...shared} />
    );
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
