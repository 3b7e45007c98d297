/** Dialogs before an action, to choose a node or confirm the action. */

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode } from './api.generated';
import { confirmAction } from './components/confirmaction';
import { DeleteQuestion, StopManyQuestion, StopQuestion } from './nodes/nodequestions';
import * as common from './messages/common';
import * as messages from './messages/panel';
import * as terminals from './messages/terminals';
import { ITpuModel } from './tokens';

export function confirmDelete(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const body = <DeleteQuestion node={node} emulated={emulated} trans={trans} />;
  return confirmAction(
    messages.deleteQuestion(node.node_id, trans),
    common.deleteButton(trans),
    body,
    trans
  );
}

/** Ask whether to delete a lost node, so that a new one can have its name. */
export function confirmRecreate(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const body = <DeleteQuestion node={node} emulated={emulated} isRecreated trans={trans} />;
  return confirmAction(
    messages.recreateQuestion(node.node_id, trans),
    messages.recreateButton(trans),
    body,
    trans
  );
}

export function confirmStop(
  node: INode,
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  const body = <StopQuestion node={node} emulated={emulated} trans={trans} />;
  return confirmAction(
    messages.stopQuestion(node.node_id, trans),
    common.stopButton(trans),
    body,
    trans
  );
}

export function confirmStopMany(
  nodes: readonly INode[],
  emulated: boolean,
  trans: TranslationBundle
): Promise<boolean> {
  return confirmAction(
    messages.stopManyQuestion(nodes.length, trans),
    common.stopButton(trans),
    <StopManyQuestion nodes={nodes} emulated={emulated} trans={trans} />,
    trans
  );
}

export function confirmRestart(name: string, trans: TranslationBundle): Promise<boolean> {
  return confirmAction(
    messages.restartQuestion(name, trans),
    messages.restartButton(trans),
    <p>{messages.variablesLost(trans)}</p>,
    trans
  );
}

export function confirmShutDown(name: string, trans: TranslationBundle): Promise<boolean> {
  return confirmAction(
    messages.shutDownQuestion(name, trans),
    messages.shutDownButton(trans),
    <p>{messages.variablesLost(trans)}</p>,
    trans
  );
}

/** @param command the command that runs in the terminal */
export function confirmShutDownTerminal(
  command: string,
  node: string,
  trans: TranslationBundle
): Promise<boolean> {
  return confirmAction(
    terminals.shutDownQuestion(node, trans),
    terminals.shutDownButton(trans),
    <p>{terminals.commandEnds(command, trans)}</p>,
    trans
  );
}

/** Let the user choose one of the nodes that allow an action. */
export async function chooseNode(
  model: ITpuModel,
  isPossible: (node: INode) => boolean,
  title: string,
  trans: TranslationBundle
): Promise<INode | undefined> {
  const nodes = (model.list?.nodes ?? []).filter(isPossible);
  const names = nodes.map(node => common.inPlace(node.node_id, node.zone, trans));
  if (nodes.length === 0) {
    const body = messages.noNodeFor(trans);
    await showDialog({ title, body, buttons: [Dialog.okButton()] });
    return undefined;
  }
  const result = await InputDialog.getItem({ title, items: names });
  return result.button.accept ? nodes[names.indexOf(result.value ?? '')] : undefined;
}
