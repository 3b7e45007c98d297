import { TranslationBundle } from '@jupyterlab/translation';
import { JSONObject } from '@lumino/coreutils';
import React, { useEffect, useRef, useState } from 'react';
import { IOffers } from '../api.generated';
import { Button } from '../components/button';
import { Problem } from '../components/problem';
import { formatUsd } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/simulator';
import * as units from '../messages/units';
import { IProblem } from '../tokens';
import { CapacityCard } from './cards/capacity';
import { ClockCard } from './cards/clock';
import { LinksCard } from './cards/connections';
import { FaultsCard } from './cards/faults';
import { NodesCard } from './cards/nodes';
import { ProjectCard } from './cards/project';
import { QuotasCard } from './cards/quotas';
import { WorkersCard } from './cards/workers';
import { changesOf } from './faults';
import { ICapacity, ICosts, IDatedCloud, ILink, IQuota, ISwitches, IWorker } from './records';

/** State of the page. */
export interface ISimulatorState {
  cloud: IDatedCloud | null;
  problem: IProblem | null;
  refusal: IProblem | null;
  isBusy: boolean;
  offers: IOffers | null;
}

/** Callbacks of the page; each runs a command. */
export interface ISimulatorActions {
  onRefresh: () => void;
  onDismiss: () => void;
  onSetClock: (change: { scale?: number; paused?: boolean; advance_s?: number }) => void;
  onPreempt: (nodes: readonly string[]) => void;
  onMaintain: (node: string, in_s: number) => void;
  onFaultLink: (link: ILink, requests: readonly JSONObject[]) => void;
  onFaultWorker: (worker: IWorker, request: JSONObject) => void;
  onSetCapacity: (capacity: Pick<ICapacity, 'zone' | 'family' | 'chips'>) => void;
  onSetQuota: (quota: Omit<IQuota, 'label' | 'used' | 'limit'>, limit: number | null) => void;
  onSetProject: (change: Partial<ISwitches> & JSONObject) => void;
  onAddFault: (fault: JSONObject) => void;
  onRemoveFault: (id: number) => void;
  onClearFaults: () => void;
  onReset: () => void;
}

interface IProps {
  state: ISimulatorState;
  actions: ISimulatorActions;
  trans: TranslationBundle;
}

/** Props of a card. */
export interface ICardProps {
  cloud: IDatedCloud;
  offers: IOffers | null;
  actions: ISimulatorActions;
  trans: TranslationBundle;
}

/** The page of the failure simulator. */
export function SimulatorPage({ state, actions, trans }: IProps): JSX.Element {
  const { cloud, problem, refusal, offers, isBusy } = state;
  return (
    <>
      <Head {...{ state, actions, trans }} />
      {problem && <Problem problem={problem} trans={trans} onRetry={actions.onRefresh} />}
      {refusal && <Problem problem={refusal} trans={trans} onDismiss={actions.onDismiss} />}
      {cloud ? (
        <div className="jp-tpu-Cards" aria-busy={isBusy}>
          <Cards {...{ cloud, offers, actions, trans }} />
        </div>
      ) : (
        !problem && (
          <div className="jp-tpu-Empty jp-tpu-Muted" role="status">
            {messages.loadingCloud(trans)}
          </div>
        )
      )}
      <Announcer cloud={cloud} trans={trans} />
    </>
  );
}

function Head({ state, actions, trans }: IProps): JSX.Element {
  const { cloud } = state;
  return (
    <div className="jp-tpu-Switchboard-head">
      <div>
        <h2>{messages.title(trans)}</h2>
        <div className="jp-tpu-Muted">
          {cloud?.project
            ? messages.emulatedCloudOf(cloud.project, trans)
            : common.emulatedCloud(trans)}
        </div>
      </div>
      {cloud && <Costs costs={cloud.ledger} trans={trans} />}
      <Button kind="warn" onClick={actions.onReset}>
        {messages.resetEllipsis(trans)}
      </Button>
    </div>
  );
}

function Costs({ costs, trans }: { costs: ICosts; trans: TranslationBundle }): JSX.Element {
  const { total_usd, usd_per_hour } = costs;
  return (
    <div className="jp-tpu-Switchboard-costs">
      {messages.simulatedCost(formatUsd(total_usd), trans)}
      {Boolean(usd_per_hour) && (
        <span className="jp-tpu-Muted">
          {' · '}
          {units.perHour(formatUsd(usd_per_hour ?? 0), trans)}
        </span>
      )}
    </div>
  );
}

interface IAnnouncerProps {
  cloud: IDatedCloud | null;
  trans: TranslationBundle;
}

/** Announces changes to users of screen readers. */
function Announcer({ cloud, trans }: IAnnouncerProps): JSX.Element {
  const last = useRef(cloud);
  const [text, setText] = useState('');
  useEffect(() => {
    const news = last.current && cloud ? changesOf(last.current, cloud, trans) : '';
    last.current = cloud;
    if (news) {
      setText(news);
    }
  }, [cloud, trans]);
  return (
    <div className="jp-tpu-Announcer" aria-live="polite">
      {text}
    </div>
  );
}

function Cards(props: ICardProps): JSX.Element {
  return (
    <>
      <ClockCard {...props} />
      <NodesCard {...props} />
      <FaultsCard {...props} />
      <WorkersCard {...props} />
      <LinksCard {...props} />
      <CapacityCard {...props} />
      <QuotasCard {...props} />
      <ProjectCard {...props} />
    </>
  );
}
