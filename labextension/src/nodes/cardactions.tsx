import { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { Button } from '../components/button';
import { hasKernel, IRow } from '../fleet';
import { stateKind } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { INodeKey } from '../tokens';
import { MORE, openCardMenu } from './target';

/** Callbacks of the buttons on a card; each runs a command. */
export interface ICardActions {
  onOpenNotebook: (key: INodeKey) => void;
  onStart: (key: INodeKey) => void;
  onDelete: (key: INodeKey) => void;
  onRecreate: (key: INodeKey) => void;
  onCancelCreation: (key: INodeKey) => void;
}

interface IProps {
  row: IRow;
  /** Whether a request about the node is in progress. */
  isBusy: boolean;
  actions: ICardActions;
  trans: TranslationBundle;
}

/** What the primary button of a card does. */
type Primary = 'open' | 'cancel' | 'start' | 'recreate' | 'delete' | null;

/** The most likely next action; all others are in the menu. */
function primaryOf({ node, intent }: IRow): Primary {
  if (intent?.verb === 'create' && !(node && hasKernel(node))) {
    return 'cancel';
  }
  if (!node || (intent && intent.verb !== 'create')) {
    return null;
  }
  if (node.state === 'READY') {
    return 'open';
  }
  const isStopped = node.state === 'STOPPED';
  if (isStopped && !node.spot) {
    return 'start';
  }
  return stateKind(node.state) === 'lost' ? 'recreate' : isStopped ? 'delete' : null;
}

export function PrimaryAction({ row, isBusy, actions, trans }: IProps): JSX.Element | null {
  const name = row.node_id;
  switch (primaryOf(row)) {
    case 'open': {
      const isPrepared = Boolean(row.node?.kernelspec);
      return (
        <Button
          kind="accept"
          aria-label={messages.openNotebookOn(name, trans)}
          disabled={!isPrepared}
          title={isPrepared ? messages.openNotebookHint(trans) : messages.kernelNotReady(trans)}
          onClick={() => actions.onOpenNotebook(row)}
        >
          <span className="jp-tpu-Node-long">{messages.openNotebookButton(trans)}</span>
          <span className="jp-tpu-Node-short">{messages.openButton(trans)}</span>
        </Button>
      );
    }
    case 'cancel':
      return (
        <Button
          aria-label={messages.cancelCreating(name, trans)}
          disabled={isBusy}
          onClick={() => actions.onCancelCreation(row)}
        >
          {common.cancel(trans)}
        </Button>
      );
    case 'start': {
      const price = row.node?.price ?? null;
      const label = messages.startTitle(name, price, trans);
      return (
        <Button
          kind="accept"
          aria-label={label}
          title={label}
          disabled={isBusy}
          onClick={() => actions.onStart(row)}
        >
          {messages.startButton(price, trans)}
        </Button>
      );
    }
    case 'recreate':
      return (
        <Button
          aria-label={messages.recreateTitle(name, trans)}
          disabled={isBusy}
          onClick={() => actions.onRecreate(row)}
        >
          {messages.recreateEllipsis(trans)}
        </Button>
      );
    case 'delete':
      return (
        <Button
          aria-label={common.deleteNode(name, trans)}
          disabled={isBusy}
          onClick={() => actions.onDelete(row)}
        >
          {common.deleteEllipsis(trans)}
        </Button>
      );
    default:
      return null;
  }
}

interface IMoreProps {
  name: string;
  trans: TranslationBundle;
}

/** The button that opens the card's menu. */
export function MoreButton({ name, trans }: IMoreProps): JSX.Element {
  const Icon = ellipsesIcon.react;
  const label = messages.moreOn(name, trans);
  return (
    <button
      type="button"
      className={`jp-tpu-IconButton ${MORE}`}
      aria-haspopup="menu"
      aria-label={label}
      title={label}
      onClick={event => openCardMenu(event.currentTarget)}
    >
      <Icon tag="span" className="jp-tpu-Icon" />
    </button>
  );
}
