/** Lost connections between the server and nodes, from the server's events; pure. */

import { ILink, INodeAutostop } from '../api.generated';
import { WITH_NODE } from '../connectionstate';
import { IFleetEvent, IKernelEvent, ILinkEvent, KERNEL_ENDED } from '../tokens';

/** Lost connections by kernel: the kernels of a node share its connection, but each reports the loss. */
export type Cuts = ReadonlyMap<string, ILinkEvent>;

/** The age of a loss, in seconds, from which a known activity of the node proves that the connection is back. */
const SETTLED_S = 60;

export function afterLink(cuts: Cuts, event: ILinkEvent): Cuts {
  if (event.state === 'live' || event.state === 'connecting') {
    return withoutNode(cuts, event.node_name);
  }
  const next = new Map(cuts);
  if (WITH_NODE.has(event.error_code)) {
    next.delete(event.kernel_id);
  } else {
    next.set(event.kernel_id, event);
  }
  return next;
}

/** Drop the lost connections of a node that is not running; they would be out of date once it runs again. */
export function afterNode(cuts: Cuts, { node_name, state }: IFleetEvent): Cuts {
  return state && state !== 'READY' ? withoutNode(cuts, node_name) : cuts;
}

/** Drop the lost connections of all kernels of a node, which share one connection. */
function withoutNode(cuts: Cuts, nodeName: string): Cuts {
  const left = [...cuts].filter(([, { node_name }]) => node_name !== nodeName);
  return left.length < cuts.size ? new Map(left) : cuts;
}

/** Drop a kernel that has ended, because it no longer reports on its connection. */
export function afterKernel(cuts: Cuts, { kernel_id, phase }: IKernelEvent): Cuts {
  const next = new Map(cuts);
  const isOver = phase === 'died' || phase === KERNEL_ENDED;
  return isOver && next.delete(kernel_id) ? next : cuts;
}

/** The lost connection to a node that should have one; undefined if there is no problem. */
export function cutOf(
  cuts: Cuts,
  nodeName: string,
  autostop: INodeAutostop | undefined,
  now_s: number
): ILink | undefined {
  const cut = [...cuts.values()].find(({ node_name }) => node_name === nodeName);
  const isRefuted =
    cut !== undefined &&
    autostop !== undefined &&
    autostop.verdict !== 'unknown' &&
    now_s - cut.since > SETTLED_S;
  return isRefuted ? undefined : cut;
}
