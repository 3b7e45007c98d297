/** Tokens and interfaces of terminals on nodes. Importing this module does nothing. */

import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';
import { ITerminal } from '../api.generated';
import { INodeKey } from '../tokens';

/** Ids of the commands on terminals. */
export namespace TerminalCommandIDs {
  /** Opens a new terminal on a node, which the user chooses if the arguments don't specify it. */
  export const open = 'tpu:open-terminal';
  /** Shows a terminal that exists. */
  export const show = 'tpu:show-terminal';
  export const shutDown = 'tpu:shut-down-terminal';
}

/** The open terminals of each node, as far as they have been requested. */
export interface INodeTerminals {
  readonly changed: ISignal<INodeTerminals, void>;

  of(key: INodeKey): readonly ITerminal[];
  /** Request the terminals of a node; keep the known ones if the request fails. */
  refresh(key: INodeKey): Promise<void>;
}

export const INodeTerminals = new Token<INodeTerminals>(
  'jupyter-tpu:INodeTerminals',
  'The open terminals of each node.'
);
