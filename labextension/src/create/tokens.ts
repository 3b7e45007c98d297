/**
 * The state of the form for a new node: last choice, profiles, and what to open. Importing this module does nothing.
 */

import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';
import { INode } from '../api.generated';
import { IOpenChoice } from '../tokens';
import { ICandidate, Way } from './draft';

/** A choice in the form that can be made again: everything except the name. */
export interface INodeChoice extends ICandidate {
  readonly way: Way;
}

/** A choice that the user saved under a name. */
export interface IProfile {
  readonly name: string;
  readonly choice: INodeChoice;
}

/** The user's last choice and saved profiles, and what can be opened on a new node. */
export interface ICreateMemory {
  /** Emitted when anything below has changed. */
  readonly changed: ISignal<ICreateMemory, void>;
  /** The choice for the node created last; null before the first. */
  readonly lastChoice: INodeChoice | null;
  readonly lastOpen: IOpenChoice | null;
  readonly profiles: readonly IProfile[];
  /** The notebook that was used last; null if there is none. */
  readonly notebook: string | null;
  /** The example notebook of the demo; null elsewhere. */
  readonly example: string | null;

  /** Store the choice for a node that is being created; without a choice of what to open, the last one stays. */
  remember(node_id: string, choice: INodeChoice, open: IOpenChoice | null): void;
  /** The choice for one of the most recent nodes; null if unknown. */
  choiceOf(node_id: string): INodeChoice | null;
  /** Add a profile, or replace the profile with that name. */
  saveProfile(profile: IProfile): Promise<void>;
  deleteProfile(name: string): Promise<void>;
  /** Whether the chosen notebook opens on a READY node now, or has opened since the node became READY. */
  opensOn(node: Pick<INode, 'name' | 'node_id' | 'zone'>): boolean;
  /** Look for the example, which exists only in the demo. */
  findExample(): Promise<void>;
}

export const ICreateMemory = new Token<ICreateMemory>(
  'jupyter-tpu:ICreateMemory',
  "The user's last choice of a node and saved profiles."
);
