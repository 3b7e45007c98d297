import React from 'react';
import { Button } from '../../components/button';
import { ICardProps } from '../page';
import { ILink, placeOf } from '../records';
import { linkChoices, linkState } from '../words';
import { Card, Rows } from './card';

/** The ways to the workers, which can be slowed, stalled and cut. */
export function LinksCard({ cloud, acts, trans }: ICardProps): JSX.Element {
  return (
    <Card title={trans.__('Links to workers')}>
      <Rows
        label={trans.__('Links to workers')}
        empty={trans.__('No worker is up.')}
        items={cloud.links}
        keyOf={link => `${link.node} ${link.worker_id}`}
        trans={trans}
      >
        {link => <Link {...{ link, acts, trans }} />}
      </Rows>
    </Card>
  );
}

type ILinkProps = Pick<ICardProps, 'acts' | 'trans'> & { link: ILink };

function Link({ link, acts, trans }: ILinkProps): JSX.Element {
  const name = trans.__('%1, worker %2', placeOf(link.node).id, link.worker_id);
  return (
    <>
      <div className="jp-tpu-Node-line">
        <span className="jp-tpu-Node-name" title={link.node}>
          {placeOf(link.node).id}
        </span>
        <span className="jp-tpu-Worker">{trans.__('worker %1', link.worker_id)}</span>
        <span className={link.faults.length > 0 ? 'jp-tpu-Broken' : 'jp-tpu-Muted'}>
          {linkState(link.faults, trans)}
        </span>
      </div>
      <div className="jp-tpu-Actions" role="group" aria-label={trans.__('Link to %1', name)}>
        {linkChoices(trans).map(({ id, label, title, asks }) => (
          <Button
            key={id}
            title={title}
            aria-label={trans.__('%1 the link to %2', label, name)}
            onClick={() => acts.onFaultLink(link, asks)}
          >
            {label}
          </Button>
        ))}
      </div>
    </>
  );
}
