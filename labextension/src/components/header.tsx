import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, refreshIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { INodeList, IStatus } from '../api.generated';
import { billingOf } from '../fleet';
import { formatUsd } from '../format';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import * as units from '../messages/units';
import { Button } from './button';

interface IProps {
  status: IStatus | null;
  list: INodeList | null;
  trans: TranslationBundle;
  /** The cloud is being asked. */
  isRefreshing: boolean;
  onCreate: () => void;
  onRefresh: () => void;
  /** Absent where the cloud is not emulated. */
  onOpenSimulator?: () => void;
}

/** The project, whether its cloud is emulated, and the total cost per hour. */
export function Header(props: IProps): JSX.Element {
  const { status, list, trans, isRefreshing, onCreate, onRefresh, onOpenSimulator } = props;
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
      {status?.project && (
        <div className="jp-tpu-Project jp-tpu-Muted" title={status.project}>
          {messages.project(status.project, trans)}
        </div>
      )}
      {status?.emulated && (
        <div className="jp-tpu-Header-line jp-mod-wrap">
          <div className="jp-tpu-Emulated">{common.emulatedCloud(trans)}</div>
          {onOpenSimulator && (
            <Button title={common.simulatorSummary(trans)} onClick={onOpenSimulator}>
              {messages.simulateFailure(trans)}
            </Button>
          )}
        </div>
      )}
      {list && <Billing list={list} trans={trans} />}
    </div>
  );
}

interface IIconButtonProps {
  label: string;
  icon: typeof addIcon;
  isBusy?: boolean;
  onClick: () => void;
}

function IconButton({ label, icon, isBusy, onClick }: IIconButtonProps): JSX.Element {
  const Icon = icon.react;
  return (
    <button
      type="button"
      className={`jp-tpu-IconButton${isBusy ? ' jp-mod-busy' : ''}`}
      aria-busy={isBusy}
      aria-label={label}
      title={label}
      onClick={onClick}
    >
      <Icon tag="span" stylesheet="toolbarButton" />
    </button>
  );
}

interface IBillingProps {
  list: INodeList;
  trans: TranslationBundle;
}

function Billing({ list, trans }: IBillingProps): JSX.Element | null {
  const { count, usdPerHour, isPartial } = billingOf(list);
  if (count === 0) {
    return null;
  }
  const usd = formatUsd(usdPerHour);
  const rate = isPartial ? units.atLeastPerHour(usd, trans) : units.perHour(usd, trans);
  return (
    <div className="jp-tpu-Billing">
      {messages.nodesRunning(count, trans)} · {rate}
    </div>
  );
}
