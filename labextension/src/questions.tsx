/** What the user is asked before an act: which node, and whether to go on. */

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { DeleteQuestion, StopQuestion } from './components/confirm';
import { INode, ITpuModel } from './tokens';

export async function confirmDelete(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Delete %1?', node.node_id),
    body: <DeleteQuestion node={node} emulated={emulated} trans={trans} />,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}

export async function confirmStop(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Stop %1?', node.node_id),
    body: <StopQuestion node={node} emulated={emulated} trans={trans} />,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Stop') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Let the user choose one of the nodes that an act is possible on. */
export async function chooseNode(
  model: ITpuModel,
  isPossible: (node: INode) => boolean,
  title: string,
  trans: TranslationBundle
): Promise<INode | undefined> {
  const nodes = (model.list?.nodes ?? []).filter(isPossible);
  const names = nodes.map(node => trans.__('%1 in %2', node.node_id, node.zone));
  if (nodes.length === 0) {
    const body = trans.__('There is no node on which this is possible now.');
    await showDialog({ title, body, buttons: [Dialog.okButton()] });
    return undefined;
  }
  const result = await InputDialog.getItem({ title, items: names });
  return result.button.accept ? nodes[names.indexOf(result.value ?? '')] : undefined;
}
