import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, refreshIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { INodeList, IStatus } from '../api.generated';
import { billingOf, runningOf } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { rateOf } from '../messages/units';
import { IconButton } from './iconbutton';

interface IProps {
  status: IStatus | null;
  list: INodeList | null;
  trans: TranslationBundle;
  /** Whether a list from the cloud was requested and has not arrived yet. */
  isRefreshing: boolean;
  /** When the cloud last responded. */
  freshness: JSX.Element | null;
  onCreate: () => void;
  onRefresh: () => void;
  /** Opens the failure simulator; missing if the cloud is not emulated. */
  onOpenSimulator?: () => void;
  /** Renders the hourly cost from the ledger, which includes grants; missing if that plugin is disabled. */
  rate?: (otherwise: string) => JSX.Element;
}

/** The project, whether its cloud is emulated, and the total cost per hour. */
export function Header(props: IProps): JSX.Element {
  const { status, list, trans, isRefreshing, onCreate, onRefresh } = props;
  return (
    <div className="jp-tpu-Header">
      <div className="jp-tpu-Header-line">
        <h2>{messages.title(trans)}</h2>
        <IconButton label={common.createNode(trans)} icon={addIcon} onClick={onCreate} />
        <IconButton
          label={isRefreshing ? messages.refreshing(trans) : messages.refreshList(trans)}
          icon={refreshIcon}
          isBusy={isRefreshing}
          onClick={onRefresh}
        />
      </div>
      <div className="jp-tpu-Header-facts jp-tpu-Muted">
        {status?.project && (
          <span className="jp-tpu-Project" title={status.project}>
            {messages.project(status.project, trans)}
          </span>
        )}
        {props.freshness}
      </div>
      {status?.emulated && <Emulated onOpenSimulator={props.onOpenSimulator} trans={trans} />}
      {list && <Billing list={list} rate={props.rate} trans={trans} />}
    </div>
  );
}

/** A label for the emulated cloud, with a button that opens the failure simulator. */
function Emulated({
  onOpenSimulator,
  trans
}: Pick<IProps, 'onOpenSimulator' | 'trans'>): JSX.Element {
  return (
    <div className="jp-tpu-Emulated">
      <span>{common.emulatedCloud(trans)}</span>
      {onOpenSimulator && (
        <button
          type="button"
          className="jp-tpu-Link"
          title={common.simulatorSummary(trans)}
          onClick={onOpenSimulator}
        >
          {messages.simulateFailure(trans)}
        </button>
      )}
    </div>
  );
}

interface IBillingProps extends Pick<IProps, 'rate' | 'trans'> {
  list: INodeList;
}

function Billing({ list, rate, trans }: IBillingProps): JSX.Element | null {
  const listed = rateOf(billingOf(list), trans);
  const running = messages.nodesRunning(runningOf(list), trans);
  return running === '' ? null : (
    <div className="jp-tpu-Billing">
      {running} · {rate?.(listed) ?? listed}
    </div>
  );
}
