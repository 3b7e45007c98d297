/** Decide which outputs go into which cell, from the record and the notebook; pure. */

import { IRecordedRequest, isOver } from './records';

/** A code cell of the notebook, as it is now. */
export interface ICellNow {
  readonly cellId: string;
  readonly source: string;
}

/** The notebook at the time of the response. */
export interface INotebookNow {
  /** Its code cells, in order. */
  readonly cells: readonly ICellNow[];
  /** Whether the file keeps the ids of its cells, as from nbformat 4.5 on. */
  readonly keepsIds: boolean;
  /** The session of this page, which has received the messages of its own requests. */
  readonly session: string;
  /** Whether the user wants all outputs restored, including those that this page has received and no longer shows. */
  readonly wantsAll: boolean;
  /** Cells that were run in this page in the meantime; these newer runs win. */
  readonly taken: ReadonlySet<string>;
  /** Whether this page sent the request, but no longer receives its messages. */
  readonly isLost: (msgId: string) => boolean;
  /** Whether the notebook was saved with all outputs of a request. */
  readonly isSeen: (msgId: string) => boolean;
}

export interface IPlacement {
  readonly cellId: string;
  readonly request: IRecordedRequest;
}

export interface IPlan {
  /** Finished requests, whose outputs are put into the cell. */
  readonly fill: readonly IPlacement[];
  /** Running or queued requests, whose cell continues from here. */
  readonly follow: readonly IPlacement[];
  /** Outputs of cells that are not in the notebook. */
  readonly unplaced: readonly IRecordedRequest[];
  /** Requests whose outputs must be requested one by one. */
  readonly unread: readonly string[];
}

/** Decide which cell each request belongs to. */
export function planRestore(requests: readonly IRecordedRequest[], now: INotebookNow): IPlan {
  const missed = requests.filter(request => isMissed(request, now));
  const read = missed.filter(({ outputs }) => outputs !== null);
  const places = placesOf(missed, now);
  const placed = read.flatMap(request => placement(request, places));
  const free = placed.filter(
    ({ cellId, request }) => !now.taken.has(cellId) || isOwn(request, now)
  );
  return {
    fill: free.filter(({ request }) => isOver(request)),
    follow: free.filter(({ request }) => !isOver(request)),
    unplaced: read.filter(request => !places.has(request) && isWorthListing(request, now)),
    unread: missed.filter(({ outputs }) => outputs === null).map(({ msg_id }) => msg_id)
  };
}

/** Whether a notebook misses a request. Those of consoles and scripts have no cell, so none misses them. */
function isMissed(request: IRecordedRequest, now: INotebookNow): boolean {
  const isWanted = !isOwn(request, now) || (now.wantsAll && isOver(request));
  const isNews = now.isLost(request.msg_id) || (isWanted && !now.isSeen(request.msg_id));
  return request.cell_id !== null && isNews;
}

function isOwn(request: IRecordedRequest, { session }: INotebookNow): boolean {
  return request.session === session;
}

function isWorthListing(request: IRecordedRequest, { taken }: INotebookNow): boolean {
  const hasOutputs = Boolean(request.outputs?.length) || !isOver(request);
  return hasOutputs && !taken.has(request.cell_id ?? '');
}

function placement(request: IRecordedRequest, places: Places): IPlacement[] {
  const cellId = places.get(request);
  return cellId === undefined ? [] : [{ cellId, request }];
}

type Places = ReadonlyMap<IRecordedRequest, string>;

function placesOf(requests: readonly IRecordedRequest[], now: INotebookNow): Places {
  const ids = new Set(now.cells.map(({ cellId }) => cellId));
  const places = new Map<IRecordedRequest, string>();
  requests.forEach(
    request => ids.has(request.cell_id ?? '') && places.set(request, request.cell_id ?? '')
  );
  if (!now.keepsIds) {
    placeBySource(requests, now.cells, places);
  }
  return places;
}

/** Match by code if only one cell fits: ids that change whenever the file is opened are of no use. */
function placeBySource(
  requests: readonly IRecordedRequest[],
  cells: readonly ICellNow[],
  places: Map<IRecordedRequest, string>
): void {
  const taken = new Set(places.values());
  const lost = groupBy(
    requests.filter(request => !places.has(request)),
    ({ code }) => code
  );
  const open = groupBy(
    cells.filter(({ cellId }) => !taken.has(cellId)),
    ({ source }) => source
  );
  for (const [source, same] of open) {
    const asked = lost.get(source) ?? [];
    const newest = asked.slice(-same.length);
    if (same.length === 1 || asked.length === same.length) {
      newest.forEach((request, index) => places.set(request, same[index].cellId));
    }
  }
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  items.forEach(item => groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]));
  return groups;
}
