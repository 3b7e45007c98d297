import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IRow } from '../fleet';
import * as messages from '../messages/panel';
import { IProblem, IRevealedCard } from '../tokens';
import { INodeActions, INodeRenderers, NodeCard } from './nodecard';

/** State of the cards. */
export interface ICardsState {
  readonly refusals: ReadonlyMap<string, IProblem>;
  readonly busy: ReadonlySet<string>;
  readonly openCards: ReadonlySet<string>;
  readonly revealedCard: IRevealedCard | null;
}

interface IProps {
  rows: readonly IRow[];
  state: ICardsState;
  actions: INodeActions;
  renderers: INodeRenderers;
  trans: TranslationBundle;
}

/** The cards of all nodes. */
export function NodeList({ rows, state, actions, renderers, trans }: IProps): JSX.Element {
  return (
    <ul className="jp-tpu-Nodes" aria-label={messages.nodes(trans)}>
      {rows.map(row => (
        <NodeCard
          key={row.key}
          row={row}
          refusal={state.refusals.get(row.key)}
          isBusy={state.busy.has(row.key)}
          isOpen={state.openCards.has(row.key)}
          changeTurn={state.revealedCard?.key === row.key ? state.revealedCard.turn : 0}
          actions={actions}
          renderers={renderers}
          trans={trans}
        />
      ))}
    </ul>
  );
}
