/** Rows, sums and changes of a list of nodes; pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IIntent, INode, INodeList } from './api.generated';
import * as common from './messages/common';
import * as messages from './messages/create';
import * as panelMessages from './messages/panel';
import { IDatedList, INodeKey } from './tokens';

/** The age from which a list shows how old it is, in seconds; the panel polls every 15 s. */
export const STALE_AFTER_S = 45;

/** The age of the cloud's response, in seconds; null before the first one. */
export function ageOf({ age_s, received_ms }: IDatedList, now_ms: number): number | null {
  return age_s === null ? null : age_s + Math.max(0, now_ms - received_ms) / 1000;
}

/** Whether the cloud has responded for a zone recently, so that the list shows the current state of its nodes. */
export function isCurrent(list: IDatedList, zone: string, now_ms: number): boolean {
  const age = ageOf(list, now_ms);
  return (
    list.error === null && !list.unreachable.includes(zone) && age !== null && age <= STALE_AFTER_S
  );
}

/** The API's rule for the names of nodes. */
const NODE_ID = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** One row of the panel: an existing or a future node. */
export interface IRow extends INodeKey {
  readonly key: string;
  readonly node: INode | null;
  /** The intent in progress. */
  readonly intent: IIntent | null;
  /** Failed intents that the user has not dismissed. */
  readonly failures: readonly IIntent[];
}

export type IFailedIntent = IIntent & { readonly error: NonNullable<IIntent['error']> };

/** The nodes that are billed now, and their price. */
export interface IBilling {
  readonly count: number;
  readonly usdPerHour: number;
  /** Whether some price is unknown, so that the sum is a lower bound. */
  readonly isPartial: boolean;
  /** Whether a grant covers all of them. */
  readonly isCovered: boolean;
}

export function keyOf({ zone, node_id }: INodeKey): string {
  return `${zone}/${node_id}`;
}

/** The command for a terminal that logs in on a node. */
export function sshCommand({ zone, node_id }: INodeKey): string {
  return `jupyter tpu ssh ${node_id} --zone ${zone}`;
}

/** Whether notebooks can run on the node now. */
export function hasKernel({ state, kernelspec }: Pick<INode, 'state' | 'kernelspec'>): boolean {
  return state === 'READY' && kernelspec !== null;
}

/**
 * The rows in the order of their names, including nodes that are still to be created.
 *
 *  Failed creations come first, newest on top, because they concern what the user did last.
 */
export function rowsOf(list: INodeList): IRow[] {
  const nodes = new Map(list.nodes.map(node => [keyOf(node), node]));
  const keys = new Map<string, INodeKey>(
    [...list.nodes, ...list.intents.filter(isShown)].map(pair)
  );
  return [...keys].map(([key, place]) => rowOf(key, place, nodes.get(key), list)).sort(byUrgency);
}

function pair(place: INodeKey): [string, INodeKey] {
  return [keyOf(place), place];
}

function isShown(intent: IIntent): boolean {
  return !intent.settled || intent.error !== null;
}

function rowOf(key: string, place: INodeKey, node: INode | undefined, list: INodeList): IRow {
  const own = list.intents.filter(intent => keyOf(intent) === key);
  return {
    key,
    zone: place.zone,
    node_id: place.node_id,
    node: node ?? null,
    intent: own.find(intent => !intent.settled) ?? null,
    failures: own.filter(intent => intent.settled && intent.error)
  };
}

/** Whether a node stops or is deleted, or soon will be, by request. */
export function isEnding(list: INodeList | null, name: string): boolean {
  return isBeing('stop', 'STOPPING', list, name) || isBeingDeleted(list, name);
}

/** Whether a node is deleted, or soon will be, by request. */
export function isBeingDeleted(list: INodeList | null, name: string): boolean {
  return isBeing('delete', 'DELETING', list, name);
}

function isBeing(
  verb: 'stop' | 'delete',
  state: string,
  list: INodeList | null,
  name: string
): boolean {
  const isRequested = list?.intents.some(
    intent => intent.node_name === name && !intent.settled && intent.verb === verb
  );
  return isRequested || list?.nodes.find(one => one.name === name)?.state === state;
}

/** The names of the nodes that are being created or started, by request or by the cloud's own account. */
export function inProgress(verb: 'create' | 'start', list: INodeList | null): string[] {
  return placesInProgress(verb, list).map(({ node_id }) => node_id);
}

function placesInProgress(verb: 'create' | 'start', list: INodeList | null): INodeKey[] {
  const state = verb === 'create' ? 'CREATING' : 'STARTING';
  const intents = list?.intents.filter(intent => !intent.settled && intent.verb === verb) ?? [];
  const nodes = list?.nodes.filter(node => node.state === state) ?? [];
  return [...new Map([...nodes, ...intents].map(pair)).values()];
}

export function failedCreations({ intents }: INodeList): IFailedIntent[] {
  return intents.filter(
    (intent): intent is IFailedIntent =>
      intent.verb === 'create' && intent.settled && intent.error !== null
  );
}

/** The newest failed creation. */
export function failedCreation({ failures }: IRow): IIntent | undefined {
  return failures
    .filter(({ verb }) => verb === 'create')
    .sort((left, right) => right.updated_at - left.updated_at)[0];
}

function byUrgency(left: IRow, right: IRow): number {
  const [leftAt, rightAt] = [left, right].map(row => failedCreation(row)?.updated_at ?? -1);
  return rightAt - leftAt || byName(left, right);
}

function byName(left: IRow, right: IRow): number {
  return NAMES.compare(left.node_id, right.node_id) || NAMES.compare(left.zone, right.zone);
}

/** Orders `run-2` before `run-10`. Names are ASCII, so that the order is the same in each language. */
const NAMES = new Intl.Collator('en', { numeric: true });

export function billingOf(list: INodeList): IBilling {
  return billingOfNodes(list.nodes.filter(node => node.billing));
}

export function billingOfNodes(nodes: readonly INode[]): IBilling {
  const billed = nodes.filter(({ covered }) => !covered);
  return {
    count: nodes.length,
    usdPerHour: billed.reduce((sum, { price }) => sum + (price?.usd_per_hour ?? 0), 0),
    isPartial: billed.some(({ price }) => price === null),
    isCovered: nodes.length > 0 && billed.length === 0
  };
}

/** The numbers of nodes that are billed and go on, that stop, and that are being deleted. */
export interface IRunning {
  readonly running: number;
  readonly stopping: number;
  readonly deleting: number;
}

/** Nodes that end are counted apart: their cost remains in the hourly rate until the ledger has closed them. */
export function runningOf(list: INodeList): IRunning {
  const ending = list.nodes.filter(({ name }) => isEnding(list, name));
  const deleting = ending.filter(({ name }) => isBeingDeleted(list, name)).length;
  return {
    running: list.nodes.filter(({ billing, name }) => billing && !isEnding(list, name)).length,
    stopping: ending.length - deleting,
    deleting
  };
}

/** How the nodes end when everything that is billed is stopped. */
export interface IEnds {
  readonly stopped: readonly INodeKey[];
  /** Nodes that the cloud cannot stop, so they are deleted together with their disks. */
  readonly deleted: readonly INodeKey[];
}

/** How the nodes end when everything is stopped, including those that the cloud doesn't run or list yet. */
export function endsOfAll(list: INodeList | null): IEnds {
  const { stopped, deleted } = endsOf(list?.nodes ?? []);
  const known = new Set([...stopped, ...deleted].map(keyOf));
  const coming = (verb: 'create' | 'start'): INodeKey[] =>
    placesInProgress(verb, list).filter(place => !known.has(keyOf(place)));
  return {
    stopped: [...stopped, ...coming('start')],
    deleted: [...deleted, ...coming('create')]
  };
}

/** How the nodes end that are billed, or soon will be. */
export function endsOf(nodes: readonly INode[]): IEnds {
  const ending = nodes.filter(({ billing, state }) => billing || COMING.has(state));
  return {
    stopped: ending.filter(canStop),
    deleted: ending.filter(node => !canStop(node))
  };
}

/** States that lead to a state that is billed. */
const COMING = new Set(['CREATING', 'STARTING', 'RESTARTING', 'REIMAGING', 'REPAIRING']);

function canStop({ state, spot, accelerator, workers }: INode): boolean {
  return state !== 'CREATING' && !spot && (accelerator?.workers ?? workers.length) <= 1;
}

/** The kernelspecs of all nodes as one string, for comparison. */
export function kernelspecsOf(list: INodeList): string {
  return list.nodes
    .map(node => node.kernelspec ?? '')
    .filter(Boolean)
    .sort()
    .join(' ');
}

/** The changes between two lists, as a sentence for screen readers. */
export function announce(before: INodeList, after: INodeList, trans: TranslationBundle): string {
  const old = new Map(before.nodes.map(node => [keyOf(node), node.state]));
  const now = new Set(after.nodes.map(keyOf));
  const changed = after.nodes.filter(node => old.get(keyOf(node)) !== node.state);
  const gone = before.nodes.filter(node => !now.has(keyOf(node)));
  return [
    ...changed.map(node => common.nodeIs(node.node_id, node.state, trans)),
    ...gone.map(node => panelMessages.nodeGone(node.node_id, trans))
  ].join(' ');
}

/** A name that is free in all zones and in the queue. */
export function suggestName(list: INodeList | null, queued: readonly INodeKey[] = []): string {
  const known = [...(list?.nodes ?? []), ...(list?.intents ?? []), ...queued];
  const taken = new Set(known.map(({ node_id }) => node_id));
  for (let number = 1; ; number++) {
    const name = `node-${number}`;
    if (!taken.has(name)) {
      return name;
    }
  }
}

/** Why a name is invalid, or an empty string. */
export function checkName(key: INodeKey, list: INodeList | null, trans: TranslationBundle): string {
  if (!NODE_ID.test(key.node_id)) {
    return messages.invalidName(trans);
  }
  const other = (list?.nodes ?? []).find(node => keyOf(node) === keyOf(key));
  if (!other) {
    return '';
  }
  return isBeingDeleted(list, other.name)
    ? messages.nameNotYetFree(trans)
    : messages.nameTaken(key.zone, trans);
}
