import React from 'react';
import { stateKind } from '../format';
import { stateIcons } from '../icons';

/** A state as the API spells it, with an icon for users who can't tell colours apart. */
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
