import { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useEffect, useRef, useState } from 'react';
import { Button } from '../components/button';
import { scrollToCenter } from '../components/scroll';
import { IRow } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { orderName, stateName } from '../messages/panel';
import { INodeKey, IProblem, IRevealedCard } from '../tokens';
import { arrange, FILTER_FROM, Order, ORDERS, rememberedOrder, rememberOrder } from './arrangement';
import { INodeActions, INodeRenderers, NodeCard } from './nodecard';
import { findCard } from './target';

/** State of the cards. */
export interface ICardsState {
  readonly refusals: ReadonlyMap<string, IProblem>;
  readonly busy: ReadonlySet<string>;
  readonly openCards: ReadonlySet<string>;
  readonly revealedCard: IRevealedCard | null;
  /** The node that this page created last. */
  readonly createdNode: INodeKey | null;
}

/** Callbacks of the list; each runs a command. */
export interface IListActions extends INodeActions {
  onStopNodes: (keys: readonly INodeKey[]) => void;
}

interface IProps {
  rows: readonly IRow[];
  state: ICardsState;
  /** How far the server's clock is ahead of the browser's, in seconds. */
  clockAhead_s: number;
  actions: IListActions;
  renderers: INodeRenderers;
  trans: TranslationBundle;
}

/** The cards of all nodes, with tools to filter, sort and stop several. */
export function NodeList(props: IProps): JSX.Element {
  const { rows, state, clockAhead_s, actions, renderers, trans } = props;
  const [filter, setFilter] = useState('');
  const [order, setOrder] = useState(rememberedOrder);
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const hasFilter = rows.length >= FILTER_FROM;
  const nameOf = (word: string): string => stateName(word, trans);
  const shown = arrange(rows, hasFilter ? filter : '', order, nameOf);
  const twins = repeatedNames(rows);
  const selected = shown.filter(row => canStop(row) && chosen?.has(row.key));
  const list = useFocusOnNewCard(state.createdNode);
  return (
    <>
      {rows.length > 1 && (
        <ListTools
          {...{ filter, hasFilter, order, trans }}
          selected={chosen && selected}
          onFilter={setFilter}
          onOrder={next => {
            rememberOrder(next);
            setOrder(next);
          }}
          onSelect={isOn => setChosen(isOn ? new Set() : null)}
          onStop={() => actions.onStopNodes(selected)}
        />
      )}
      {shown.length === 0 && (
        <div className="jp-tpu-Empty jp-tpu-Muted">{messages.noMatch(trans)}</div>
      )}
      <ul ref={list} className="jp-tpu-Nodes" aria-label={messages.nodes(trans)}>
        {shown.map(row => (
          <NodeCard
            key={row.key}
            row={row}
            refusal={state.refusals.get(row.key)}
            isBusy={state.busy.has(row.key)}
            isOpen={state.openCards.has(row.key)}
            isChosen={chosen && canStop(row) ? chosen.has(row.key) : null}
            isChoosing={chosen !== null}
            isTwin={twins.has(row.node_id)}
            changeTurn={state.revealedCard?.key === row.key ? state.revealedCard.turn : 0}
            clockAhead_s={row.intent ? clockAhead_s : 0}
            onChoose={setChosen}
            actions={actions}
            renderers={renderers}
            trans={trans}
          />
        ))}
      </ul>
    </>
  );
}

/** Move the focus to the card of a new node: the form that had the focus is gone, and the card may be out of sight. */
function useFocusOnNewCard(created: INodeKey | null): React.RefObject<HTMLUListElement> {
  const list = useRef<HTMLUListElement>(null);
  const focused = useRef<INodeKey | null>(null);
  // after each update, because the card appears only with a later list
  useEffect(() => {
    const card = created && created !== focused.current && findCard(list.current, created);
    if (card) {
      focused.current = created;
      scrollToCenter(card);
      card.focus({ preventScroll: true });
    }
  });
  return list;
}

/** Names shared by nodes in several zones. */
function repeatedNames(rows: readonly IRow[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const isRepeated = (name: string): boolean => seen.size === seen.add(name).size;
  return new Set(rows.map(({ node_id }) => node_id).filter(isRepeated));
}

function canStop({ node, intent }: IRow): boolean {
  return node?.state === 'READY' && intent === null;
}

interface IToolsProps {
  filter: string;
  hasFilter: boolean;
  order: Order;
  /** The selected nodes; null unless the user is selecting. */
  selected: readonly IRow[] | null;
  trans: TranslationBundle;
  onFilter: (filter: string) => void;
  onOrder: (order: Order) => void;
  onSelect: (isOn: boolean) => void;
  onStop: () => void;
}

/** The filter, the order, and the selection of several nodes. */
function ListTools(props: IToolsProps): JSX.Element {
  const { filter, hasFilter, order, selected, trans, onFilter, onOrder, onSelect, onStop } = props;
  const opener = useRef<HTMLButtonElement>(null);
  return (
    <div className="jp-tpu-ListTools" role="group" aria-label={messages.listTools(trans)}>
      {hasFilter && (
        <input
          type="search"
          className="jp-mod-styled"
          placeholder={messages.filterNodes(trans)}
          aria-label={messages.filterNodes(trans)}
          value={filter}
          onChange={event => onFilter(event.target.value)}
          onKeyDown={event => event.key === 'Escape' && onFilter('')}
        />
      )}
      <HTMLSelect
        value={order}
        aria-label={messages.sortBy(trans)}
        title={messages.sortBy(trans)}
        onChange={event => onOrder(event.target.value as Order)}
      >
        {ORDERS.map(each => (
          <option key={each} value={each}>
            {orderName(each, trans)}
          </option>
        ))}
      </HTMLSelect>
      <Button
        ref={opener}
        aria-pressed={selected !== null}
        title={messages.selectHint(trans)}
        onClick={() => onSelect(selected === null)}
      >
        {selected === null ? messages.select(trans) : common.cancel(trans)}
      </Button>
      {selected && (
        <Button
          kind="warn"
          aria-label={messages.stopSelected(selected.length, trans)}
          disabled={selected.length === 0}
          onClick={onStop}
        >
          {common.stopEllipsis(trans)}
        </Button>
      )}
    </div>
  );
}
