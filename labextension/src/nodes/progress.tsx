import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { IIntent } from '../api.generated';
import { formatProgress } from '../messages/panel';

interface IProps {
  intent: IIntent;
  trans: TranslationBundle;
}

/** What is being done to a node. */
export function Progress({ intent, trans }: IProps): JSX.Element {
  const text = formatProgress(intent.verb, intent.phase, trans);
  return (
    <div className="jp-tpu-Progress" title={intent.message}>
      <div className="jp-tpu-Progress-text">{text}</div>
      <div role="progressbar" aria-label={text} className="jp-tpu-Bar" />
    </div>
  );
}
