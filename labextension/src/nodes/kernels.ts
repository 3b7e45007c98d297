/** The kernels that run on each node, from the sessions of the Jupyter server. */

import { Event, Kernel, Session } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { INode } from '../api.generated';
import { isOver } from '../kernelstart';
import { IKernelEvent, KERNEL_SCHEMA } from '../tokens';

/** A kernel on a node, with the document that it belongs to. */
export interface INodeKernel {
  readonly sessionId: string;
  readonly kernelId: string;
  /** `notebook`, `console` or another type of document. */
  readonly type: string;
  readonly path: string;
  /** The file's name, or the whole path if it has none. */
  readonly name: string;
  readonly state: 'starting' | 'busy' | 'idle';
}

export interface INodeKernels {
  readonly changed: ISignal<INodeKernels, void>;
  of(node: Pick<INode, 'kernelspec'>): readonly INodeKernel[];
  /** Whether a kernel is starting on the node; until it runs, the node's activity may be unknown. */
  isStarting(node: Pick<INode, 'name' | 'kernelspec'>): boolean;
}

export class NodeKernels implements INodeKernels {
  /**
   * @param _sessions lists the sessions and says when they change; nothing more is requested
   * @param _kernels lists the kernels with their states, which JupyterLab's list of sessions keeps as they were at first
   * @param events report the start of a kernel, which has no session until it runs
   */
  constructor(
    private readonly _sessions: Pick<Session.IManager, 'running' | 'runningChanged'>,
    private readonly _kernels: Pick<Kernel.IManager, 'running' | 'runningChanged'>,
    events: Event.Stream
  ) {
    this._sessions.runningChanged.connect(() => this._changed.emit());
    this._kernels.runningChanged.connect(() => this._changed.emit());
    events.connect((_, event) => {
      if (event.schema_id === KERNEL_SCHEMA) {
        this._onStart(event as unknown as IKernelEvent);
      }
    });
  }

  get changed(): ISignal<INodeKernels, void> {
    return this._changed;
  }

  of({ kernelspec }: Pick<INode, 'kernelspec'>): readonly INodeKernel[] {
    const states = new Map(
      [...this._kernels.running()].map(({ id, execution_state }) => [id, execution_state])
    );
    return [...this._sessions.running()]
      .filter(({ kernel }) => kernel !== null && kernel?.name === kernelspec)
      .map(session => kernelOf(session, states.get(session.kernel?.id ?? '')))
      .sort((left, right) => left.path.localeCompare(right.path));
  }

  isStarting(node: Pick<INode, 'name' | 'kernelspec'>): boolean {
    return (
      [...this._starting.values()].includes(node.name) ||
      this.of(node).some(({ state }) => state === 'starting')
    );
  }

  private _onStart(start: IKernelEvent): void {
    if (isOver(start) || start.error_code) {
      this._starting.delete(start.kernel_id);
    } else {
      this._starting.set(start.kernel_id, start.node_name);
    }
    this._changed.emit();
  }

  /** The nodes on which kernels are starting, by kernel id. */
  private readonly _starting = new Map<string, string>();
  private readonly _changed = new Signal<this, void>(this);
}

/** @param state the kernel's state; undefined if the list of kernels does not have the kernel yet */
function kernelOf(
  { id, kernel, path, name, type }: Session.IModel,
  state: string | undefined
): INodeKernel {
  return {
    sessionId: id,
    kernelId: kernel?.id ?? '',
    type,
    path,
    name: name || path.slice(path.lastIndexOf('/') + 1) || path,
    state: stateOf(state ?? kernel?.execution_state)
  };
}

function stateOf(state: string | undefined): INodeKernel['state'] {
  return state === 'busy' || state === 'starting' ? state : 'idle';
}
