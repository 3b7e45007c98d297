/** The ends of nodes shown above notebooks, stored so that a reloaded page shows them again. */

import { Contents } from '@jupyterlab/services';
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

  /** Keep the entries of notebooks by what happens to files and folders: another notebook may get the same path. */
  onFileChanged({ type, oldValue, newValue }: Contents.IChangedArgs): void {
    if (type === 'new' && newValue?.path) {
      this._forget(newValue.path);
    } else if (type === 'delete' && oldValue?.path) {
      this._forget(oldValue.path);
    } else if (type === 'rename' && oldValue?.path && newValue?.path) {
      this._forget(newValue.path);
      this.move(oldValue.path, newValue.path);
    }
  }

  /** Move the entries of a renamed notebook or folder, if there are any. */
  move(from: string, to: string): void {
    for (const path of this._pathsIn(from)) {
      this.put(to + path.slice(from.length), this.of(path));
      this.put(path, null);
    }
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

  private _forget(place: string): void {
    this._pathsIn(place).forEach(path => this.put(path, null));
  }

  /** The notebooks with entries that have this path, or are in the folder with this path. */
  private _pathsIn(place: string): string[] {
    return Object.keys(this._storage)
      .filter(key => key.startsWith(PREFIX))
      .map(key => key.slice(PREFIX.length))
      .filter(path => path === place || path.startsWith(`${place}/`));
  }
}
