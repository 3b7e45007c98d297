/** Says so when a notebook gets its kernel on another node that only has the name of the earlier one. */

import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { KernelSpec } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { INode } from '../api.generated';
import { hasKernel } from '../fleet';
import * as endMessages from '../messages/nodeend';
import * as messages from '../messages/surfaces';
import { nodeNameOf } from '../nodekernel';
import { ITpuModel } from '../tokens';

const KEY = 'jupyter-tpu:last-nodes';
/** How many notebooks are remembered. */
const MOST = 200;

export interface ILastNodeContext {
  readonly nodes: Pick<ITpuModel, 'list' | 'refresh'>;
  readonly specs: () => KernelSpec.ISpecModels | null;
  /** Whether the notebook with this path has a kernel already, which was started when its node was known. */
  readonly isRunning: (path: string) => boolean;
  readonly onChooseKernel: (panel: NotebookPanel) => void;
  readonly trans: TranslationBundle;
}

/** Remembers on which node each notebook last had a kernel. */
export class LastNodes {
  /** @param _storage outlives the page, such as the browser's `localStorage` */
  constructor(
    private readonly _context: ILastNodeContext,
    private readonly _storage: Storage
  ) {}

  /** Watch a notebook that is being opened. */
  watch(panel: NotebookPanel): void {
    const { context, sessionContext } = panel;
    // a kernel that is named was chosen by the user
    let isChosen =
      Boolean(sessionContext.kernelPreference.name) || this._context.isRunning(context.path);
    sessionContext.kernelChanged.connect((_, { newValue }) => {
      if (newValue) {
        void this._onKernel(panel, newValue.name, isChosen);
        isChosen = true;
      }
    });
    let { path } = context;
    context.pathChanged.connect((_, to) => {
      const last = this._read().find(([each]) => each === path);
      this._put(to, last?.[1] ?? '');
      path = to;
    });
  }

  private async _onKernel(panel: NotebookPanel, kernel: string, isChosen: boolean): Promise<void> {
    const name = nodeNameOf(kernel, this._context.specs());
    const node = name === null ? undefined : await this._find(name);
    if (!node) {
      return;
    }
    const { path } = panel.context;
    const last = this._read().find(([each]) => each === path)?.[1];
    this._put(path, idOf(node));
    if (!isChosen && last && last !== idOf(node) && last.startsWith(`${node.name} `)) {
      this._notify(panel, node);
    }
  }

  /** The node, which may be newer than the last list. */
  private async _find(name: string): Promise<INode | undefined> {
    const { nodes } = this._context;
    const find = (): INode | undefined =>
      nodes.list?.nodes.find(node => node.name === name && hasKernel(node));
    if (!find()) {
      await nodes.refresh();
    }
    return find();
  }

  private _notify(panel: NotebookPanel, { node_id }: INode): void {
    const { onChooseKernel, trans } = this._context;
    const text = messages.newNodeOfSameName(node_id, PathExt.basename(panel.context.path), trans);
    const action = {
      label: endMessages.chooseKernel(trans),
      callback: () => onChooseKernel(panel)
    };
    Notification.info(text, { autoClose: false, actions: [action] });
  }

  private _read(): readonly (readonly [string, string])[] {
    try {
      return JSON.parse(this._storage.getItem(KEY) ?? '[]') as [string, string][];
    } catch {
      return [];
    }
  }

  private _put(path: string, id: string): void {
    const others = this._read().filter(([each]) => each !== path);
    const all = id ? [...others, [path, id]] : others;
    try {
      this._storage.setItem(KEY, JSON.stringify(all.slice(-MOST)));
    } catch {
      // the storage is full or blocked: nothing is said of a new node
    }
  }
}

/** Nodes of the same name differ in the time of their creation. */
function idOf({ name, create_time }: INode): string {
  return `${name} ${create_time}`;
}
