/** Notifications of kernels that have ended or, without a notebook in this page, failed to start. */

import { Notification } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { INode, INodeList } from './api.generated';
import { IKernelEvent, INodeKey, KERNEL_NOT_STARTED, KERNEL_SCHEMA, NODE_ENDED } from './tokens';

/** How the server's texts name the command: without the node, because a link to a worker does not know its node. */
const SSH = '`jupyter tpu ssh`';

/** The code of an error after which a later kernel may start. */
const UNREACHABLE = 'worker_unreachable';

/** The most characters in a notification: JupyterLab cuts longer ones, even inside a word. */
const MAX_LENGTH = 140;

interface INotice {
  id: string;
  /** The kernels that the notice is about. */
  readonly kernels: Set<string>;
  /** Whether a worker could not be reached; a kernel that starts there clears the notice. */
  isUnreachable: boolean;
  /** Whether the node has been listed since. */
  wasListed: boolean;
  /** Whether the node has been listed in a state other than READY since. */
  wasAway: boolean;
}

/**
 * One notice per node with its newest message: a server tries several times to start a kernel, and all kernels of
 * a node end with it.
 */
export class FailureNotices {
  /**
   * @param _copySsh the button that copies the command which logs in on a node, for texts that send the user there
   * @param _isInNotebook whether an event is about the kernel of an open notebook
   */
  constructor(
    private readonly _copySsh: (node: INodeKey) => Notification.IAction,
    private readonly _isInNotebook: (start: IKernelEvent) => boolean
  ) {}

  /** Handle an event of the server; all but those of kernels are ignored. */
  readonly onEvent = (_: unknown, event: Event.Emission): void => {
    if (event.schema_id !== KERNEL_SCHEMA) {
      return;
    }
    const start = event as unknown as IKernelEvent;
    if (start.phase === NODE_ENDED) {
      return; // the line above the notebook says it
    }
    if (start.phase === KERNEL_NOT_STARTED && this._isInNotebook(start)) {
      return; // JupyterLab's dialog says it
    }
    if (start.error_code) {
      this._notify(start);
    } else if (start.phase === 'ready') {
      this._onReady(start);
    }
  };

  /** Withdraw notices that a new list of nodes makes obsolete: the node is READY again, or deleted. */
  onNodes(list: INodeList | null): void {
    this._list = list;
    for (const [name, notice] of this._shown) {
      const node = list ? find(name, list) : undefined;
      if ((node === null && notice.wasListed) || (node?.state === 'READY' && notice.wasAway)) {
        this._withdraw(name, notice);
      }
      updateNotice(notice, node);
    }
  }

  private _notify({ node_name, kernel_id, message, error_code }: IKernelEvent): void {
    const old = this._shown.get(node_name);
    const actions = message.includes(SSH) ? [this._copySsh(keyOfName(node_name))] : [];
    const text = wholeSentences(message);
    const isUnreachable = error_code === UNREACHABLE;
    if (old && Notification.update({ id: old.id, message: text, actions })) {
      old.kernels.add(kernel_id);
      old.isUnreachable = isUnreachable;
      return;
    }
    const id = Notification.error(text, { autoClose: false, actions });
    const kernels = new Set([kernel_id]);
    const notice = { id, kernels, isUnreachable, wasListed: false, wasAway: false };
    this._shown.set(node_name, notice);
    updateNotice(notice, this._list ? find(node_name, this._list) : undefined);
  }

  private _onReady({ node_name, kernel_id }: IKernelEvent): void {
    const notice = this._shown.get(node_name);
    const isOver = notice?.kernels.delete(kernel_id) && notice.kernels.size === 0;
    if (notice && (isOver || notice.isUnreachable)) {
      this._withdraw(node_name, notice);
    }
  }

  private _withdraw(name: string, { id }: INotice): void {
    this._shown.delete(name);
    Notification.dismiss(id);
  }

  private readonly _shown = new Map<string, INotice>();
  private _list: INodeList | null = null;
}

/** The whole sentences that fit into a notification; the notebook shows all of them. */
function wholeSentences(message: string): string {
  const sentences = message.split(/(?<=[.。]) /);
  let count = 1;
  while (sentences.slice(0, count + 1).join(' ').length <= MAX_LENGTH && count < sentences.length) {
    count += 1;
  }
  return sentences.slice(0, count).join(' ');
}

function keyOfName(name: string): INodeKey {
  const [, , , zone, , node_id] = name.split('/');
  return { zone, node_id };
}

/** The node; null if it is certainly gone, undefined if that is unknown. */
function find(name: string, list: INodeList): INode | null | undefined {
  const node = list.nodes.find(node => node.name === name);
  const isWhole = list.as_of !== null && list.error === null;
  const isAsked = !list.unreachable.some(zone => name.includes(`/locations/${zone}/`));
  return node ?? (isWhole && isAsked ? null : undefined);
}

function updateNotice(notice: INotice, node: INode | null | undefined): void {
  notice.wasListed ||= Boolean(node);
  notice.wasAway ||= Boolean(node) && node?.state !== 'READY';
}
