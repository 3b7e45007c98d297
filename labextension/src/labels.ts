/** Labels of commands: `TPU: Create Node…` in the palette, `Create Node…` in menus that name TPU themselves. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import * as messages from './messages/commands';

export type Label = (args: ReadonlyPartialJSONObject) => string;

/** @param menuLabel the label in a menu, if it differs from what follows `TPU:` in the palette */
export function commandLabel(label: string, trans: TranslationBundle, menuLabel = label): Label {
  return args => (isInMenu(args) ? menuLabel : messages.inPalette(label, trans));
}

/** Whether the label is shown where TPU is already named: in one of our menus, or for one node. */
export function isInMenu(args: ReadonlyPartialJSONObject): boolean {
  return args.isMenu === true || typeof args.node_id === 'string';
}
