import React from 'react';
import * as messages from '../../messages/simulator';
import { linkChoices, linkState } from '../faults';
import { ICardProps } from '../page';
import { Card, Rows } from './card';
import { keyOf, WorkerRow } from './workers';

/** Connections to the workers, which can be slowed, stalled and cut. */
export function LinksCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.connections(trans)}>
      <Rows
        label={messages.connections(trans)}
        empty={messages.noWorker(trans)}
        items={cloud.links}
        keyOf={keyOf}
        trans={trans}
      >
        {link => (
          <WorkerRow
            worker={link}
            state={linkState(link.faults, trans)}
            groupOf={name => messages.connectionTo(name, trans)}
            labelOf={(action, name) => messages.actOnConnection(action, name, trans)}
            choices={linkChoices(trans)}
            onChoose={requests => actions.onFaultLink(link, requests)}
            trans={trans}
          />
        )}
      </Rows>
    </Card>
  );
}
