/** A reminder that a node has been billed for a day or more without user activity, on its card and in its notebooks. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IKeepRunning, INodeAutostop } from '../api.generated';
import { Button } from '../components/button';
import * as messages from '../messages/autostop';
import * as common from '../messages/common';

interface IProps {
  autostop: INodeAutostop;
  isBusy: boolean;
  trans: TranslationBundle;
  onKeepRunning: (request: IKeepRunning) => void;
  /** Stops or deletes the node after a confirmation. */
  onEnd: () => void;
}

/** The reminder. Keeping the node running counts as user activity, which hides it for a day. */
export function Reminder({
  autostop,
  isBusy,
  trans,
  onKeepRunning,
  onEnd
}: IProps): JSX.Element | null {
  if (!autostop.reminder) {
    return null;
  }
  const isStop = autostop.action === 'stop';
  return (
    <div className="jp-tpu-Notice" role="status">
      {autostop.reminder.text}
      <div className="jp-tpu-Actions">
        <Button
          isOff={isBusy}
          aria-label={messages.keepRunningOf(autostop.node_id, trans)}
          onClick={() => onKeepRunning({ for_s: 3600 })}
        >
          {messages.keepRunning(trans)}
        </Button>
        <Button
          isOff={isBusy}
          aria-label={
            isStop
              ? common.stopNode(autostop.node_id, trans)
              : common.deleteNode(autostop.node_id, trans)
          }
          onClick={onEnd}
        >
          {isStop ? common.stopEllipsis(trans) : common.deleteEllipsis(trans)}
        </Button>
      </div>
    </div>
  );
}
