/** The node of a card: as attributes of its element, for commands of its menu. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { problemOf } from '../request';
import { INodeKey } from '../tokens';

/** The class of a card; the schema of the panel's plugin selects it for its menu. */
export const CARD = 'jp-tpu-Node';
/** The class of the button that opens a card's menu. */
export const MORE = 'jp-tpu-Node-more';

type Args = ReadonlyPartialJSONObject;

/**
 * Adds the node's key to the arguments that a card's menu gives, and returns all others as they are.
 *
 * An item of a menu has the same arguments on each card: `onCard` says that the card is where the menu is.
 */
export type Locate = (args: Args) => Args;

export function locatorIn(app: Pick<JupyterFrontEnd, 'contextMenuHitTest'>): Locate {
  return args => (args.onCard === true ? { ...args, ...keyOf(cardOf(app)) } : args);
}

/** The card on which the context menu was opened last. */
export function cardOf(app: Pick<JupyterFrontEnd, 'contextMenuHitTest'>): HTMLElement | undefined {
  return app.contextMenuHitTest(element => element.classList.contains(CARD));
}

/** The attributes that name a card's node. */
export function cardAttributes({ zone, node_id }: INodeKey): { readonly [name: string]: string } {
  return { 'data-zone': zone, 'data-node-id': node_id };
}

/** The card of a node, if it is shown. */
export function findCard(
  list: HTMLElement | null,
  { zone, node_id }: INodeKey
): HTMLElement | undefined {
  const cards = [...(list?.querySelectorAll<HTMLElement>(`.${CARD}`) ?? [])];
  return cards.find(({ dataset }) => dataset.zone === zone && dataset.nodeId === node_id);
}

function keyOf(card: HTMLElement | undefined): Args {
  const { zone, nodeId } = card?.dataset ?? {};
  return zone && nodeId ? { zone, node_id: nodeId } : {};
}

/** Open the menu of a card below its button. JupyterLab opens the same one for a right click on the card. */
export function openCardMenu(button: HTMLElement): void {
  const { left, bottom } = button.getBoundingClientRect();
  const place = { clientX: left, clientY: bottom };
  button.dispatchEvent(
    new MouseEvent('contextmenu', { bubbles: true, cancelable: true, ...place })
  );
}

/** Run a command and show an error from the menu of a card as a notification. */
export async function reportOnCard<T>({ onCard }: Args, act: () => Promise<T>): Promise<T | null> {
  try {
    return await act();
  } catch (error) {
    if (onCard !== true) {
      throw error;
    }
    Notification.error(problemOf(error).message, { autoClose: false });
    return null;
  }
}
