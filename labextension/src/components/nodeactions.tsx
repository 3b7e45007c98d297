import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { INode } from '../api.generated';
import { IRow } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { Button } from './button';
import { INodeActions } from './noderow';

interface IProps {
  row: IRow;
  node: INode;
  isBusy: boolean;
  canSwitchKernel: boolean;
  actions: INodeActions;
  trans: TranslationBundle;
}

/** The actions that a node's state allows. */
export function NodeActions(props: IProps): JSX.Element {
  const { node, row, trans, actions } = props;
  const name = node.node_id;
  const isHeld = props.isBusy || row.intent !== null;
  return (
    <div className="jp-tpu-Actions" role="group" aria-label={messages.actionsOn(name, trans)}>
      {canRun(row) && <NotebookButtons {...props} />}
      {node.state === 'READY' && (
        <Button
          aria-label={common.stopNode(name, trans)}
          disabled={isHeld}
          onClick={() => actions.onStop(node)}
        >
          {common.stopButton(trans)}
        </Button>
      )}
      {node.state === 'STOPPED' && !node.spot && (
        <Button
          kind="accept"
          aria-label={messages.startNode(name, trans)}
          disabled={isHeld}
          onClick={() => actions.onStart(node)}
        >
          {messages.startButton(trans)}
        </Button>
      )}
      <Button
        aria-label={common.deleteNode(name, trans)}
        disabled={props.isBusy || !canDelete(row)}
        onClick={() => actions.onDelete(node)}
      >
        {common.deleteButton(trans)}
      </Button>
    </div>
  );
}

/** A node that is about to stop takes no new notebooks. */
function canRun({ node, intent }: IRow): boolean {
  return node?.state === 'READY' && (intent === null || intent.verb === 'create');
}

/** A node can be deleted once, whatever else is in progress. */
function canDelete({ node, intent }: IRow): boolean {
  return node?.state !== 'DELETING' && intent?.verb !== 'delete';
}

function NotebookButtons({ node, canSwitchKernel, actions, trans }: IProps): JSX.Element {
  const isPrepared = node.kernelspec !== null;
  const unprepared = isPrepared ? undefined : messages.kernelNotReady(trans);
  return (
    <>
      <Button
        kind="accept"
        aria-label={messages.openNotebookOn(node.node_id, trans)}
        disabled={!isPrepared}
        title={unprepared}
        onClick={() => actions.onOpenNotebook(node)}
      >
        {messages.openNotebook(trans)}
      </Button>
      {canSwitchKernel && (
        <Button
          aria-label={messages.runNotebookOn(node.node_id, trans)}
          disabled={!isPrepared}
          title={unprepared ?? messages.runNotebookHereHint(trans)}
          onClick={() => actions.onSwitchKernel(node)}
        >
          {messages.runNotebookHere(trans)}
        </Button>
      )}
    </>
  );
}
