import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IIntent } from '../api.generated';
import { Facts } from '../components/facts';
import { useNow } from '../components/now';
import { formatVerb, phaseName, progressTime } from '../messages/panel';

interface IProps {
  intent: IIntent;
  /** How far the server's clock is ahead of the browser's, in seconds. */
  clockAhead_s: number;
  trans: TranslationBundle;
}

/**
 * The operation in progress on a node: its phase, its duration so far, and the usual duration. The line above it names
 * the operation.
 */
export function Progress({ intent, clockAhead_s, trans }: IProps): JSX.Element {
  const elapsed_s = useNow() / 1000 + clockAhead_s - intent.created_at;
  const phase = phaseName(intent.phase, trans);
  const { usual_s } = intent;
  const percent = usual_s === null ? null : Math.min(95, Math.round((100 * elapsed_s) / usual_s));
  return (
    <div className="jp-tpu-Progress" title={intent.message}>
      <div className="jp-tpu-Progress-text">
        <Facts facts={[phase, progressTime(elapsed_s, usual_s, trans)]} />
      </div>
      <div
        role="progressbar"
        aria-label={[formatVerb(intent.verb, trans), phase].filter(Boolean).join(' · ')}
        aria-valuenow={percent ?? undefined}
        className={`jp-tpu-Bar${percent === null ? '' : ' jp-mod-known'}`}
      >
        {percent !== null && <i style={{ transform: `scaleX(${percent / 100})` }} />}
      </div>
    </div>
  );
}
