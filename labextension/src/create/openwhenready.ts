/** Opens the chosen notebook on a new node once that node is READY, even after the page is reloaded. */

import { IStateDB } from '@jupyterlab/statedb';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { INode } from '../api.generated';
import { hasKernel } from '../fleet';
import { IOpenChoice, ITpuModel } from '../tokens';
import { isOpen } from './memory';

const KEY = 'jupyter-tpu:open-when-ready';
/** How long an entry is kept: a queued node may take days. */
const KEEP_MS = 7 * 86_400_000;

interface IPending {
  readonly open: IOpenChoice;
  /** The node's zone; null if a search will find one. */
  readonly zone: string | null;
  readonly since_ms: number;
}

export class OpenWhenReady {
  /**
   * @param nodes the list of nodes
   * @param opener opens the choice on a READY node
   */
  constructor(
    private readonly _nodes: Pick<ITpuModel, 'list'>,
    private readonly _opener: (node: INode, open: IOpenChoice) => void,
    private readonly _state: IStateDB | null
  ) {}

  /** Read the entries that were pending when the page was closed. */
  async load(): Promise<void> {
    const stored = await this._state?.fetch(KEY).catch(() => undefined);
    for (const [place, value] of Object.entries(stored ?? {})) {
      const pending = value as unknown as IPending;
      const isValid = isOpen(pending?.open) && Date.now() - pending.since_ms < KEEP_MS;
      // earlier versions stored the name without the zone
      const key = place.includes('/') ? place : placeOf(place, pending?.zone);
      if (isValid && !this._pending.has(key)) {
        this._pending.set(key, pending);
      }
    }
    this.check();
  }

  /** Open this on the node of that name; a later choice for the same name and zone replaces it. */
  add(node_id: string, zone: string | null, open: IOpenChoice): void {
    const key = placeOf(node_id, zone);
    this._pending.delete(key);
    if (open.kind !== 'none') {
      this._pending.set(key, { open, zone, since_ms: Date.now() });
    }
    this._save();
    this.check();
  }

  /** Open all entries whose nodes are READY now. */
  readonly check = (): void => {
    for (const node of this._nodes.list?.nodes ?? []) {
      const key = this._keyOf(node);
      const pending = this._pending.get(key);
      if (!hasKernel(node)) {
        this._opened.delete(node.name);
      } else if (pending) {
        // removed first, because opening changes the list again
        this._pending.delete(key);
        this._opened.add(node.name);
        this._save();
        this._opener(node, pending.open);
      }
    }
  };

  /** Whether a notebook opens on a READY node now, or has opened since the node became READY. */
  readonly opensOn = (node: Pick<INode, 'name' | 'node_id' | 'zone'>): boolean =>
    this._opened.has(node.name) || this._pending.has(this._keyOf(node));

  /** The key of the entry for a node: its zone's entry, else the entry of a search. */
  private _keyOf({ node_id, zone }: Pick<INode, 'node_id' | 'zone'>): string {
    const own = placeOf(node_id, zone);
    return this._pending.has(own) ? own : placeOf(node_id, null);
  }

  private _save(): void {
    const value = Object.fromEntries(this._pending) as unknown as ReadonlyPartialJSONObject;
    void this._state?.save(KEY, value).catch(() => undefined);
  }

  /** Full names of READY nodes on which something has opened. */
  private readonly _opened = new Set<string>();
  /** Entries by zone and name: a queued node and a node found by a search may share a name. */
  private readonly _pending = new Map<string, IPending>();
}

function placeOf(node_id: string, zone: string | null): string {
  return `${zone ?? ''}/${node_id}`;
}
