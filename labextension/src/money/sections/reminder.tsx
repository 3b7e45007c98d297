/** That a node was billed for a day or more without a human act: in its row, and in the notebooks that run on it. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Button } from '../../components/button';
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
          aria-label={trans.__('Keep %1 running', brake.node_id)}
          onClick={() => onKeep({ for_s: 3600 })}
        >
          {trans.__('Keep running')}
        </Button>
        <Button
          isOff={isBusy}
          aria-label={
            isStop ? trans.__('Stop %1', brake.node_id) : trans.__('Delete %1', brake.node_id)
          }
          onClick={onEnd}
        >
          {isStop ? trans.__('Stop…') : trans.__('Delete…')}
        </Button>
      </div>
    </div>
  );
}
