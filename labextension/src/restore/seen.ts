/** Which requests are complete in a saved notebook, so that outputs the user removed do not come back. */

const KEY = 'jupyter-tpu:seen-requests';

/** About 200 KB of the browser's storage; the outputs of forgotten requests are restored once more, never lost. */
const MAX_REQUESTS = 5000;

export class SeenRequests {
  /** @param storage outlives the page, such as the browser's `localStorage` */
  constructor(private readonly _storage: Pick<Storage, 'getItem' | 'setItem'>) {}

  has(msgId: string): boolean {
    return this._read().includes(msgId);
  }

  /** All seen requests, read each time because other tabs write them as well. */
  all(): ReadonlySet<string> {
    return new Set(this._read());
  }

  add(msgIds: Iterable<string>): void {
    const ids = [...new Set([...this._read(), ...msgIds])].slice(-MAX_REQUESTS);
    try {
      this._storage.setItem(KEY, JSON.stringify(ids));
    } catch {
      // the storage is full or blocked: cells are then restored once more
    }
  }

  private _read(): string[] {
    try {
      const ids: unknown = JSON.parse(this._storage.getItem(KEY) ?? '[]');
      return Array.isArray(ids) ? ids.filter(id => typeof id === 'string') : [];
    } catch {
      return [];
    }
  }
}
