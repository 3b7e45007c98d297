/** Which cards are shown, and in which order; pure except for the browser's storage. */

import { failedCreation, IRow } from '../fleet';
import { stateKind, StateKind } from '../format';

export type Order = 'name' | 'state' | 'cost';

export const ORDERS: readonly Order[] = ['name', 'state', 'cost'];

/** The number of nodes from which the filter is shown. */
export const FILTER_FROM = 8;

const MEMORY = 'jupyter-tpu:node-order';

/** Running nodes come first, and lost ones last. */
const RANKS: { readonly [kind in StateKind]: number } = {
  ready: 0,
  working: 1,
  stopped: 2,
  unknown: 3,
  lost: 4
};

/** The rows that contain all words of a filter, sorted; failed creations stay on top. */
export function arrange(
  rows: readonly IRow[],
  filter: string,
  order: Order,
  nameOf: (state: string) => string
): IRow[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter(row => {
    const text = textOf(row, nameOf);
    return words.every(word => text.includes(word));
  });
  // sorting is stable, so equal rows stay in the order of their names
  return shown.sort((left, right) => rank(left, order) - rank(right, order));
}

function textOf({ node, node_id, zone }: IRow, nameOf: (state: string) => string): string {
  const state = node ? `${node.state} ${nameOf(node.state)}` : '';
  return `${node_id} ${zone} ${node?.accelerator_type ?? ''} ${state}`.toLowerCase();
}

function rank(row: IRow, order: Order): number {
  const { node } = row;
  if (failedCreation(row)) {
    return -Infinity;
  }
  switch (order) {
    case 'state':
      return node ? RANKS[stateKind(node.state)] : RANKS.working;
    case 'cost':
      // an unknown price may be a high one
      return node?.billing ? -(node.price?.usd_per_hour ?? Number.MAX_VALUE) : 0;
    default:
      return 0;
  }
}

/** The order that the user chose last. */
export function rememberedOrder(): Order {
  try {
    const known = window.localStorage.getItem(MEMORY);
    return ORDERS.find(order => order === known) ?? 'name';
  } catch {
    return 'name'; // the browser may block its storage
  }
}

export function rememberOrder(order: Order): void {
  try {
    window.localStorage.setItem(MEMORY, order);
  } catch {
    // then it applies until the page is closed
  }
}
