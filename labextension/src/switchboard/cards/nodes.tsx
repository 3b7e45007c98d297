import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Button } from '../../components/button';
import { State } from '../../components/state';
import { ICardProps } from '../page';
import { IEmulatedNode, IMaintenance, IQueuedResource, placeOf } from '../records';
import { formatMoment } from '../words';
import { Card, Rows } from './card';

/** Seconds of the cloud's own time. */
const MAINTAIN_IN_S = 3600;

const GONE = new Set(['PREEMPTED', 'TERMINATED', 'DELETING', 'STOPPED', 'STOPPING']);

/** Nodes and queued resources, which the cloud can take back. */
export function NodesCard({ cloud, acts, trans }: ICardProps): JSX.Element {
  const eventOf = ({ name }: IEmulatedNode): IMaintenance | undefined =>
    cloud.maintenance.find(event => event.node === name);
  const alive = new Set(cloud.nodes.filter(isAlive).map(({ name }) => name));
  return (
    <Card title={trans.__('Nodes and queued resources')}>
      <Rows
        label={trans.__('Nodes')}
        empty={trans.__('No nodes yet: create one in the TPU panel.')}
        items={cloud.nodes}
        keyOf={({ name }) => name}
        trans={trans}
      >
        {node => (
          <>
            <Heading name={node.name} state={node.state} note={noteOf(node, trans)} />
            <Maintenance event={eventOf(node)} trans={trans} />
            <div className="jp-tpu-Actions">
              <PreemptButton {...{ acts, trans }} of={node.name} nodes={only(node, alive)} />
              <Button
                isOff={node.state !== 'READY'}
                title={trans.__('In an hour of the cloud’s own time')}
                aria-label={trans.__('Announce maintenance of %1', placeOf(node.name).id)}
                onClick={() => acts.onMaintain(node.name, MAINTAIN_IN_S)}
              >
                {trans.__('Maintenance in 1 h')}
              </Button>
            </div>
          </>
        )}
      </Rows>
      {cloud.queued_resources.length > 0 && (
        <Rows
          label={trans.__('Queued resources')}
          empty=""
          items={cloud.queued_resources}
          keyOf={({ name }) => name}
          trans={trans}
        >
          {queued => (
            <>
              <Heading
                name={queued.name}
                state={queued.state}
                note={trans.__('queued resource · %1', placeOf(queued.name).zone)}
              />
              <div className="jp-tpu-Actions">
                <PreemptButton
                  {...{ acts, trans }}
                  of={queued.name}
                  nodes={nodesOf(queued).filter(name => alive.has(name))}
                />
              </div>
            </>
          )}
        </Rows>
      )}
    </Card>
  );
}

interface IMaintenanceProps {
  event: IMaintenance | undefined;
  trans: TranslationBundle;
}

function Maintenance({ event, trans }: IMaintenanceProps): JSX.Element | null {
  if (!event) {
    return null;
  }
  return (
    <div>
      {event.is_ongoing
        ? trans.__('Maintenance is going on')
        : trans.__('Maintenance on %1', formatMoment(event.starts))}
    </div>
  );
}

function isAlive({ state }: IEmulatedNode): boolean {
  return !GONE.has(state);
}

function only({ name }: IEmulatedNode, alive: ReadonlySet<string>): string[] {
  return alive.has(name) ? [name] : [];
}

function nodesOf({ nodes }: IQueuedResource): readonly string[] {
  return nodes ?? [];
}

function noteOf({ name, accelerator_type, spot }: IEmulatedNode, trans: TranslationBundle): string {
  const parts = [accelerator_type, placeOf(name).zone, spot ? trans.__('spot') : ''];
  return parts.filter(Boolean).join(' · ');
}

interface IHeadingProps {
  name: string;
  state: string;
  note: string;
}

function Heading({ name, state, note }: IHeadingProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Node-line">
        <span className="jp-tpu-Node-name" title={name}>
          {placeOf(name).id}
        </span>
        <State state={state} />
      </div>
      <div className="jp-tpu-Node-where" title={note}>
        {note}
      </div>
    </>
  );
}

interface IPreemptProps extends Pick<ICardProps, 'acts' | 'trans'> {
  of: string;
  nodes: readonly string[];
}

function PreemptButton({ of, nodes, acts, trans }: IPreemptProps): JSX.Element {
  return (
    <Button
      isOff={nodes.length === 0}
      aria-label={trans.__('Pre-empt %1', placeOf(of).id)}
      onClick={() => acts.onPreempt(nodes)}
    >
      {trans.__('Pre-empt')}
    </Button>
  );
}
