/** Which requests are whole in a saved notebook, so that outputs which a user removed do not come back. */

const KEY = 'jupyter-tpu:seen-requests';

/** About 200 KB; what is forgotten is restored once more, never lost. */
const MOST = 5000;

export class SeenRequests {
  /** @param storage what outlives the page, such as the browser's `localStorage` */
  constructor(private readonly _storage: Pick<Storage, 'getItem' | 'setItem'>) {}

  has(msgId: string): boolean {
    return this._read().includes(msgId);
  }

  /** All of them at once, read anew since other tabs write as well. */
  all(): ReadonlySet<string> {
    return new Set(this._read());
  }

  add(msgIds: Iterable<string>): void {
    const ids = [...new Set([...this._read(), ...msgIds])].slice(-MOST);
    try {
      this._storage.setItem(KEY, JSON.stringify(ids));
    } catch {
      // full or forbidden: then cells are restored once more
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
