import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { stateKind } from '../format';
import { stateIcons } from '../icons';
import { stateName } from '../messages/panel';

interface IProps {
  /** The state, as spelled by the API. */
  state: string;
  trans: TranslationBundle;
}

/** The state of a node or a queued resource as a word, with an icon in a colour that shows its meaning. */
export function State({ state, trans }: IProps): JSX.Element {
  const kind = stateKind(state);
  const Icon = stateIcons[kind].react;
  return (
    <span className={`jp-tpu-State jp-mod-${kind}`} title={state}>
      <span className="jp-tpu-State-icon" aria-hidden="true">
        <Icon tag={null} />
      </span>
      <span className="jp-tpu-State-name">{stateName(state, trans)}</span>
    </span>
  );
}
