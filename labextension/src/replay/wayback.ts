/** How work can go on in a notebook after its node has ended; pure. */

import { IAction, INode, INodeEnd } from '../api.generated';
import { CommandIDs, CreateCommandIDs } from '../tokens';

/** The main button, identified by its command; `isDue` is false while it has to wait. */
export interface IWayBack {
  readonly kind: 'kernel' | 'start' | 'starting' | 'recreate';
  readonly command: string;
  readonly args: IAction['args'];
  readonly isDue: boolean;
}

/**
 * @param node the node of that name as last listed, which may be a new one
 * @returns null if nothing is known that would help
 */
export function wayBack(end: INodeEnd, node: INode | undefined): IWayBack | null {
  const key = { zone: end.zone, node_id: end.node_id };
  if (node?.state === 'READY') {
    const isDue = node.kernelspec !== null;
    return { kind: 'kernel', command: CommandIDs.switchKernel, args: key, isDue };
  }
  if (node && RISING.has(node.state)) {
    return { kind: 'starting', command: CommandIDs.openPanel, args: {}, isDue: false };
  }
  const action = end.actions[0];
  if (action?.command === CommandIDs.startNode) {
    const isDue = node?.state === 'STOPPED';
    return { kind: 'start', command: action.command, args: key, isDue };
  }
  return action
    ? {
        kind: 'recreate',
        command: CreateCommandIDs.recreateNode,
        args: { ...action.args, ...key },
        isDue: true
      }
    : null;
}

const RISING = new Set(['CREATING', 'STARTING', 'RESTARTING', 'REPAIRING']);
