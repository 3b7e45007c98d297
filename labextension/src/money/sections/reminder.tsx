/** That a node was billed for a day or more without a human act: in its row, and in the notebooks that run on it. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Button } from '../../components/button';
import * as messages from '../../messages/autostop';
import * as common from '../../messages/common';
import { IBrake, IKeep } from '../records';

interface IProps {
  brake: IBrake;
  isBusy: boolean;
  trans: TranslationBundle;
  onKeep: (keep: IKeep) => void;
  /** Asks before it stops or deletes the node. */
  onEnd: () => void;
}

/** Keeping the node running is an act, so the reminder is over for a day. */
export function Reminder({ brake, isBusy, trans, onKeep, onEnd }: IProps): JSX.Element | null {
  if (!brake.reminder) {
    return null;
  }
  const isStop = brake.action === 'stop';
  return (
    <div className="jp-tpu-Notice" role="status">
      {brake.reminder.text}
      <div className="jp-tpu-Actions">
        <Button
          isOff={isBusy}
          aria-label={messages.keepRunningOf(brake.node_id, trans)}
          onClick={() => onKeep({ for_s: 3600 })}
        >
          {messages.keepRunning(trans)}
        </Button>
        <Button
          isOff={isBusy}
          aria-label={
            isStop ? common.stopNode(brake.node_id, trans) : common.deleteNode(brake.node_id, trans)
          }
          onClick={onEnd}
        >
          {isStop ? common.stopEllipsis(trans) : common.deleteEllipsis(trans)}
        </Button>
      </div>
    </div>
  );
}
