import React from 'react';
import { Button } from '../../components/button';
import * as messages from '../../messages/simulator';
import { linkChoices, linkState } from '../faults';
import { ICardProps } from '../page';
import { ILink, placeOf } from '../records';
import { Card, Rows } from './card';

/** Connections to the workers, which can be slowed, stalled and cut. */
export function LinksCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  return (
    <Card title={messages.connections(trans)}>
      <Rows
        label={messages.connections(trans)}
        empty={messages.noWorker(trans)}
        items={cloud.links}
        keyOf={link => `${link.node} ${link.worker_id}`}
        trans={trans}
      >
        {link => <Link {...{ link, actions, trans }} />}
      </Rows>
    </Card>
  );
}

type ILinkProps = Pick<ICardProps, 'actions' | 'trans'> & { link: ILink };

function Link({ link, actions, trans }: ILinkProps): JSX.Element {
  const name = messages.workerOf(placeOf(link.node).id, link.worker_id, trans);
  return (
    <>
      <div className="jp-tpu-Node-line">
        <span className="jp-tpu-Node-name" title={link.node}>
          {placeOf(link.node).id}
        </span>
        <span className="jp-tpu-Worker">{messages.worker(link.worker_id, trans)}</span>
        <span className={link.faults.length > 0 ? 'jp-tpu-Broken' : 'jp-tpu-Muted'}>
          {linkState(link.faults, trans)}
        </span>
      </div>
      <div className="jp-tpu-Actions" role="group" aria-label={messages.connectionTo(name, trans)}>
        {linkChoices(trans).map(({ id, label, title, requests }) => (
          <Button
            key={id}
            title={title}
            aria-label={messages.actOnConnection(label, name, trans)}
            onClick={() => actions.onFaultLink(link, requests)}
          >
            {label}
          </Button>
        ))}
      </div>
    </>
  );
}
