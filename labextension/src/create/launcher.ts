/** The section of the launcher: a new node, each READY node, and the demo's example. */

import { ILauncher } from '@jupyterlab/launcher';
import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';
import { hasKernel } from '../fleet';
import * as common from '../messages/common';
import { CommandIDs, CreateCommandIDs, ITpuModel } from '../tokens';
import { ICreateMemory } from './tokens';

/** Ranked above the local kernels: a user who installed this extension is likely to want a TPU. */
const SECTION_RANK = -1;
/** The most cards of nodes: more would push everything else out of sight, and the panel lists all nodes. */
const MAX_NODES = 12;

type Item = ILauncher.IItemOptions;

/** Keeps the launcher's section up to date. */
export class LauncherSection {
  constructor(
    private readonly _launcher: ILauncher,
    private readonly _nodes: Pick<ITpuModel, 'list'>,
    private readonly _memory: Pick<ICreateMemory, 'example'>,
    private readonly _trans: TranslationBundle
  ) {
    this.update();
  }

  /** Update the cards to the current state. */
  readonly update = (): void => {
    const wanted = new Map(this._items().map(item => [JSON.stringify(item), item]));
    for (const [key, card] of this._cards) {
      if (!wanted.has(key)) {
        this._cards.delete(key);
        card.dispose();
      }
    }
    for (const [key, item] of wanted) {
      if (!this._cards.has(key)) {
        this._cards.set(key, this._launcher.add(item));
      }
    }
  };

  private _items(): Item[] {
    const section = { category: common.product(this._trans), categoryRank: SECTION_RANK };
    const ready = (this._nodes.list?.nodes ?? []).filter(hasKernel).slice(0, MAX_NODES);
    return [
      { ...section, command: CommandIDs.createNode, args: { isLauncher: true }, rank: 0 },
      ...(this._memory.example !== null
        ? [
            {
              ...section,
              command: CreateCommandIDs.openExample,
              args: { isLauncher: true },
              rank: 1
            }
          ]
        : []),
      ...ready.map(({ zone, node_id }, index) => ({
        ...section,
        command: CommandIDs.openNotebook,
        args: { zone, node_id, isLauncher: true },
        rank: 2 + index
      }))
    ];
  }

  private readonly _cards = new Map<string, IDisposable>();
}
