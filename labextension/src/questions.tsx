/** What the user is asked before an act: which node, and whether to go on. */

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { DeleteQuestion, StopQuestion } from './components/confirm';
import { ask } from './components/question';
import { INode, ITpuModel } from './tokens';

export function confirmDelete(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const body = <DeleteQuestion node={node} emulated={emulated} trans={trans} />;
  return ask(trans.__('Delete %1?', node.node_id), trans.__('Delete'), body, trans);
}

export function confirmStop(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const body = <StopQuestion node={node} emulated={emulated} trans={trans} />;
  return ask(trans.__('Stop %1?', node.node_id), trans.__('Stop'), body, trans);
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
