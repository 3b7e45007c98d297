import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { Button } from '../../components/button';
import { State } from '../../components/state';
import * as messages from '../../messages/simulator';
import { formatMoment } from '../faults';
import { ICardProps } from '../page';
import { IEmulatedNode, IMaintenance, IQueuedResource, placeOf } from '../records';
import { Card, Rows } from './card';

/** How far ahead maintenance is scheduled, in seconds of emulated time. */
const MAINTAIN_IN_S = 3600;

const GONE = new Set(['PREEMPTED', 'TERMINATED', 'DELETING', 'STOPPED', 'STOPPING']);

/** Nodes and queued resources, which can be pre-empted. */
export function NodesCard({ cloud, actions, trans }: ICardProps): JSX.Element {
  const eventOf = ({ name }: IEmulatedNode): IMaintenance | undefined =>
    cloud.maintenance.find(event => event.node === name);
  const preemptible = new Set(
    cloud.nodes.filter(node => isAlive(node) && node.spot).map(({ name }) => name)
  );
  return (
    <Card title={messages.nodesAndQueued(trans)}>
      <Rows
        label={messages.nodes(trans)}
        empty={messages.noNodes(trans)}
        items={cloud.nodes}
        keyOf={({ name }) => name}
        trans={trans}
      >
        {node => (
          <>
            <Heading
              {...{ name: node.name, state: node.state, note: noteOf(node, trans), trans }}
            />
            <Maintenance event={eventOf(node)} trans={trans} />
            <div className="jp-tpu-Actions">
              {node.spot && (
                <PreemptButton
                  {...{ actions, trans }}
                  of={node.name}
                  nodes={only(node, preemptible)}
                />
              )}
              <Button
                isOff={node.state !== 'READY'}
                title={messages.maintenanceNote(trans)}
                aria-label={messages.announceMaintenance(placeOf(node.name).id, trans)}
                onClick={() => actions.onMaintain(node.name, MAINTAIN_IN_S)}
              >
                {messages.maintenanceIn1h(trans)}
              </Button>
            </div>
          </>
        )}
      </Rows>
      {cloud.queued_resources.length > 0 && (
        <Rows
          label={messages.queuedResources(trans)}
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
                trans={trans}
                note={messages.queuedResourceIn(placeOf(queued.name).zone, trans)}
              />
              <div className="jp-tpu-Actions">
                <PreemptButton
                  {...{ actions, trans }}
                  of={queued.name}
                  nodes={nodesOf(queued).filter(name => preemptible.has(name))}
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
        ? messages.underMaintenance(trans)
        : messages.maintenanceAt(formatMoment(event.starts), trans)}
    </div>
  );
}

function isAlive({ state }: IEmulatedNode): boolean {
  return !GONE.has(state);
}

function only({ name }: IEmulatedNode, preemptible: ReadonlySet<string>): string[] {
  return preemptible.has(name) ? [name] : [];
}

function nodesOf({ nodes }: IQueuedResource): readonly string[] {
  return nodes ?? [];
}

function noteOf({ name, accelerator_type, spot }: IEmulatedNode, trans: TranslationBundle): string {
  const parts = [accelerator_type, placeOf(name).zone, spot ? messages.spot(trans) : ''];
  return parts.filter(Boolean).join(' · ');
}

interface IHeadingProps extends Pick<ICardProps, 'trans'> {
  name: string;
  state: string;
  note: string;
}

function Heading({ name, state, note, trans }: IHeadingProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Node-line">
        <span className="jp-tpu-Node-name" title={name}>
          {placeOf(name).id}
        </span>
        <State state={state} trans={trans} />
      </div>
      <div className="jp-tpu-Node-where" title={note}>
        {note}
      </div>
    </>
  );
}

interface IPreemptProps extends Pick<ICardProps, 'actions' | 'trans'> {
  of: string;
  nodes: readonly string[];
}

function PreemptButton({ of, nodes, actions, trans }: IPreemptProps): JSX.Element {
  return (
    <Button
      isOff={nodes.length === 0}
      aria-label={messages.preemptNode(placeOf(of).id, trans)}
      onClick={() => actions.onPreempt(nodes)}
    >
      {messages.preempt(trans)}
    </Button>
  );
}
