/** A banner above a notebook whose node was pre-empted: what was lost, and buttons to rerun it. */

import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { IReplay } from '../api.generated';
import { Banner, NotebookBanner } from '../components/banner';
import { Button } from '../components/button';
import * as common from '../messages/common';
import * as messages from '../messages/replay';
import { noticeText } from '../messages/replay';
import { NotebookReplay } from './replay';

export interface IReplayActions {
  onRun: () => void;
  onDismiss: () => void;
}

export class ReplayNotice extends NotebookBanner {
  constructor(
    private readonly _replay: NotebookReplay,
    private readonly _actions: IReplayActions,
    private readonly _trans: TranslationBundle
  ) {
    super();
  }

  protected render(): JSX.Element {
    const replay = this._replay;
    return (
      <UseSignal signal={replay.changed}>
        {() =>
          replay.lost && (
            <Notice
              {...this._actions}
              lost={replay.lost}
              isRunning={replay.isRunning}
              trans={this._trans}
              onHeight={this.setHeight}
            />
          )
        }
      </UseSignal>
    );
  }
}

interface IProps extends IReplayActions {
  lost: IReplay;
  isRunning: boolean;
  trans: TranslationBundle;
  onHeight: (height: number) => void;
}

export function Notice(props: IProps): JSX.Element {
  const { lost, isRunning, trans, onRun, onDismiss, onHeight } = props;
  const isBusy = isRunning || !lost.is_back;
  return (
    <Banner onHeight={onHeight}>
      <span role="status" title={lost.reason}>
        {noticeText(lost, new Date(), trans)}
        {!lost.is_back && ` ${messages.nodeNotBack(trans)}`}
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
