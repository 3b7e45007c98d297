/** Lost connections of the server to nodes, from its events; pure. */

import { ILink, INodeAutostop } from '../api.generated';
import { IKernelEvent, ILinkEvent, KERNEL_ENDED } from '../tokens';

/** Lost connections by kernel: kernels of one node share its connection, and report its loss one by one. */
export type Cuts = ReadonlyMap<string, ILinkEvent>;

/** After this long, an observation of the node's activity proves that there is a connection again. */
const SETTLED_S = 60;

export function afterLink(cuts: Cuts, event: ILinkEvent): Cuts {
  const next = new Map(cuts);
  if (event.state === 'live' || event.state === 'connecting') {
    // all kernels of a node share one connection
    next.forEach((cut, kernelId) => cut.node_name === event.node_name && next.delete(kernelId));
  } else {
    next.set(event.kernel_id, event);
  }
  return next;
}

/** Drop a kernel that has ended, because it no longer reports its connection. */
export function afterKernel(cuts: Cuts, { kernel_id, phase }: IKernelEvent): Cuts {
  const next = new Map(cuts);
  const isOver = phase === 'died' || phase === KERNEL_ENDED;
  return isOver && next.delete(kernel_id) ? next : cuts;
}

/** The lost connection to a node that should have one; undefined if all is well. */
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
