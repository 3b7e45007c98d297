import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IRow } from '../fleet';
import { INode } from '../tokens';
import { Button } from './button';
import { INodeActs } from './noderow';

interface IProps {
  row: IRow;
  node: INode;
  isBusy: boolean;
  canSwitchKernel: boolean;
  acts: INodeActs;
  trans: TranslationBundle;
}

/** The buttons of a node: only those that its state allows. */
export function NodeActions(props: IProps): JSX.Element {
  const { node, row, trans, acts } = props;
  const name = node.node_id;
  const isHeld = props.isBusy || row.intent !== null;
  return (
    <div className="jp-tpu-Actions" role="group" aria-label={trans.__('Actions on %1', name)}>
      {canRun(row) && <NotebookButtons {...props} />}
      {node.state === 'READY' && (
        <Button
          aria-label={trans.__('Stop %1', name)}
          disabled={isHeld}
          onClick={() => acts.onStop(node)}
        >
          {trans.__('Stop')}
        </Button>
      )}
      {node.state === 'STOPPED' && !node.spot && (
        <Button
          kind="accept"
          aria-label={trans.__('Start %1', name)}
          disabled={isHeld}
          onClick={() => acts.onStart(node)}
        >
          {trans.__('Start')}
        </Button>
      )}
      <Button
        aria-label={trans.__('Delete %1', name)}
        disabled={props.isBusy || !canDelete(row)}
        onClick={() => acts.onDelete(node)}
      >
        {trans.__('Delete')}
      </Button>
    </div>
  );
}

/** A node that is on its way out takes no more notebooks. */
function canRun({ node, intent }: IRow): boolean {
  return node?.state === 'READY' && (intent === null || intent.verb === 'create');
}

/** Whatever else is going on, a node can be got rid of, once. */
function canDelete({ node, intent }: IRow): boolean {
  return node?.state !== 'DELETING' && intent?.verb !== 'delete';
}

function NotebookButtons({ node, canSwitchKernel, acts, trans }: IProps): JSX.Element {
  const isPrepared = node.kernelspec !== null;
  const unprepared = isPrepared ? undefined : trans.__('Its kernel is not there yet.');
  return (
    <>
      <Button
        kind="accept"
        aria-label={trans.__('Open notebook on %1', node.node_id)}
        disabled={!isPrepared}
        title={unprepared}
        onClick={() => acts.onOpenNotebook(node)}
      >
        {trans.__('Open notebook')}
      </Button>
      {canSwitchKernel && (
        <Button
          aria-label={trans.__('Run the current notebook on %1', node.node_id)}
          disabled={!isPrepared}
          title={unprepared ?? trans.__('Run the current notebook on this node')}
          onClick={() => acts.onSwitchKernel(node)}
        >
          {trans.__('Run here')}
        </Button>
      )}
    </>
  );
}
