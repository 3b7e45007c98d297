/** The line above a notebook about the end of its node: first why it ended, then the lost cells, to run them again. */

import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { INodeEnd, IReplay } from '../api.generated';
import { Banner, NotebookBanner } from '../components/banner';
import { Button } from '../components/button';
import * as common from '../messages/common';
import * as messages from '../messages/replay';
import { noticeText } from '../messages/replay';
import { ITpuModel } from '../tokens';
import { EndLine, IEndActions } from './endline';
import { NotebookReplay } from './replay';

export interface IReplayActions extends IEndActions {
  onRun: () => void;
}

export class ReplayNotice extends NotebookBanner {
  /** @param _nodes the list of nodes, which shows how the node can come back; null if there is none */
  constructor(
    private readonly _replay: NotebookReplay,
    private readonly _nodes: ITpuModel | null,
    private readonly _actions: IReplayActions,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this._nodes?.stateChanged.connect(this._onNodes, this);
  }

  dispose(): void {
    this._nodes?.stateChanged.disconnect(this._onNodes, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    return <UseSignal signal={this._replay.changed}>{() => this._line()}</UseSignal>;
  }

  private _line(): JSX.Element | null {
    const { lost, done, isRunning, received_ms } = this._replay;
    const shared = { ...this._actions, trans: this._trans, onHeight: this.setHeight };
    if (lost && hasEnded(lost)) {
      return <EndLine {...shared} lost={lost} received_ms={received_ms} nodes={this._nodes} />;
    }
    return lost && <Notice {...shared} lost={lost} done={done} isRunning={isRunning} />;
  }

  private _onNodes(): void {
    if (this._replay.lost?.end) {
      this.update();
    }
  }
}

function hasEnded(lost: IReplay): lost is IReplay & { readonly end: INodeEnd } {
  return lost.end !== null;
}

interface IProps extends Pick<IReplayActions, 'onRun' | 'onDismiss'> {
  lost: IReplay;
  done: ReadonlySet<string>;
  isRunning: boolean;
  trans: TranslationBundle;
  onHeight: (height: number) => void;
}

export function Notice(props: IProps): JSX.Element {
  const { lost, done, isRunning, trans, onRun, onDismiss, onHeight } = props;
  const isBusy = isRunning || !lost.is_back;
  return (
    <Banner onHeight={onHeight}>
      <span role="status" title={lost.reason}>
        {noticeText(lost, done, new Date(), trans)}
        {!lost.is_back && ` ${messages.notConnected(trans)}`}
      </span>
      <Button onClick={onRun} disabled={isBusy}>
        {isRunning ? messages.running(trans) : messages.rerunEllipsis(trans)}
      </Button>
      <Button onClick={onDismiss} disabled={isRunning}>
        {common.dismiss(trans)}
      </Button>
    </Banner>
  );
}
