/** The kernels that run on each node, from the sessions of the Jupyter server. */

import { Session } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { INode } from '../api.generated';

/** A kernel on a node, with the document that it belongs to. */
export interface INodeKernel {
  readonly sessionId: string;
  readonly kernelId: string;
  /** `notebook`, `console` or another type of document. */
  readonly type: string;
  readonly path: string;
  /** The file's name, or the path where it has none. */
  readonly name: string;
  readonly isBusy: boolean;
}

export interface INodeKernels {
  readonly changed: ISignal<INodeKernels, void>;
  of(node: Pick<INode, 'kernelspec'>): readonly INodeKernel[];
}

export class NodeKernels implements INodeKernels {
  /** @param _sessions lists the sessions and says when they change; nothing more is requested */
  constructor(private readonly _sessions: Pick<Session.IManager, 'running' | 'runningChanged'>) {
    this._sessions.runningChanged.connect(() => this._changed.emit());
  }

  get changed(): ISignal<INodeKernels, void> {
    return this._changed;
  }

  of({ kernelspec }: Pick<INode, 'kernelspec'>): readonly INodeKernel[] {
    return [...this._sessions.running()]
      .filter(({ kernel }) => kernel !== null && kernel?.name === kernelspec)
      .map(kernelOf)
      .sort((left, right) => left.path.localeCompare(right.path));
  }

  private readonly _changed = new Signal<this, void>(this);
}

function kernelOf({ id, kernel, path, name, type }: Session.IModel): INodeKernel {
  return {
    sessionId: id,
    kernelId: kernel?.id ?? '',
    type,
    path,
    name: name || path.slice(path.lastIndexOf('/') + 1) || path,
    isBusy: kernel?.execution_state === 'busy'
  };
}
