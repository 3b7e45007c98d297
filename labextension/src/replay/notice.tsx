/** Above a notebook: that its node was taken away, what had run there, and what can be done about it. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';
import { Button } from '../components/button';
import { IReplay } from './records';
import { NotebookReplay } from './replay';
import { noticeText } from './words';

export interface IReplayActs {
  onRun: () => void;
  onDismiss: () => void;
}

export class ReplayNotice extends ReactWidget {
  constructor(
    private readonly _replay: NotebookReplay,
    private readonly _acts: IReplayActs,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-Replay');
  }

  protected render(): JSX.Element {
    const replay = this._replay;
    return (
      <UseSignal signal={replay.changed}>
        {() =>
          replay.lost && (
            <Measured onHeight={this._setHeight}>
              <Notice
                {...this._acts}
                lost={replay.lost}
                isRunning={replay.isRunning}
                trans={this._trans}
              />
            </Measured>
          )
        }
      </UseSignal>
    );
  }

  /** Lumino gives a header as much room as it asks for, and a line that wraps needs more. */
  private readonly _setHeight = (height: number): void => {
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  };
}

interface IMeasuredProps {
  children: React.ReactNode;
  onHeight: (height: number) => void;
}

/** Tells how high its content is as long as it is there. */
function Measured({ children, onHeight }: IMeasuredProps): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new ResizeObserver(() => onHeight(element.current?.offsetHeight ?? 0));
    if (element.current) {
      observer.observe(element.current);
    }
    return () => {
      observer.disconnect();
      onHeight(0);
    };
  }, [onHeight]);
  return <div ref={element}>{children}</div>;
}

interface IProps extends IReplayActs {
  lost: IReplay;
  isRunning: boolean;
  trans: TranslationBundle;
}

export function Notice({ lost, isRunning, trans, onRun, onDismiss }: IProps): JSX.Element {
  const isBusy = isRunning || !lost.is_back;
  return (
    <div className="jp-tpu-Replay-notice">
      <span role="status" title={lost.reason}>
        {noticeText(lost, new Date(), trans)}
        {!lost.is_back && ` ${trans.__('The node is not back yet.')}`}
      </span>
      <Button onClick={onRun} disabled={isBusy}>
        {isRunning ? trans.__('Running…') : trans.__('Run these again…')}
      </Button>
      <Button onClick={onDismiss} disabled={isRunning}>
        {trans.__('Dismiss')}
      </Button>
    </div>
  );
}
