/** The ends of nodes shown above notebooks, stored so that a reloaded page shows them again. */

import { EndedReplay } from './replay';

const PREFIX = 'jupyter-tpu:node-end:';

export class ShownEnds {
  /** @param _storage outlives the page but not its tab, such as the browser's `sessionStorage` */
  constructor(private readonly _storage: Storage) {}

  /** What was shown above the notebook with this path; null if nothing was. */
  of(path: string): EndedReplay | null {
    try {
      return JSON.parse(this._storage.getItem(PREFIX + path) ?? 'null') as EndedReplay | null;
    } catch {
      return null;
    }
  }

  /** Move the entry of a renamed notebook. */
  move(from: string, to: string): void {
    const shown = this.of(from);
    this.put(from, null);
    this.put(to, shown);
  }

  put(path: string, shown: EndedReplay | null): void {
    if (!shown) {
      this._storage.removeItem(PREFIX + path);
      return;
    }
    try {
      // the server keeps the cells, which may be long
      this._storage.setItem(PREFIX + path, JSON.stringify({ ...shown, cells: [] }));
    } catch {
      // the storage is full: after a reload the line is gone
    }
  }
}
