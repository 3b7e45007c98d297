/** The node of a card, stored in attributes of its element for the commands of its menu. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { problemOf } from '../request';
import { INodeKey } from '../tokens';

/** The CSS class of a card; the schema of the panel's plugin uses it as the selector of the card's menu. */
export const CARD = 'jp-tpu-Node';
/** The CSS class of the button that opens a card's menu. */
export const MORE = 'jp-tpu-Node-more';

type Args = ReadonlyPartialJSONObject;

/**
 * Adds the node's key to arguments from a card's menu, and returns all others unchanged.
 *
 *  A menu item has the same arguments on every card: `onCard` means the card on which the menu was opened.
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

/** Run a command from a card's menu, and show an error as a notification. */
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
