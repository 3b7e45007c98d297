import React from 'react';
import { stateKind } from '../format';
import { stateIcons } from '../icons';

/** A state in the API's word, with a sign beside it for those who cannot tell colours apart. */
export function State({ state }: { state: string }): JSX.Element {
  const kind = stateKind(state);
  const Icon = stateIcons[kind].react;
  return (
    <span className={`jp-tpu-State jp-mod-${kind}`}>
      <span className="jp-tpu-State-icon" aria-hidden="true">
        <Icon tag={null} />
      </span>
      {state}
    </span>
  );
}
