import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, refreshIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { billingOf } from '../fleet';
import { formatUsd } from '../format';
import { INodeList, IStatus } from '../tokens';
import { Button } from './button';

interface IProps {
  status: IStatus | null;
  list: INodeList | null;
  trans: TranslationBundle;
  onCreate: () => void;
  onRefresh: () => void;
  /** Absent where the cloud cannot be broken on purpose. */
  onOpenSwitchboard?: () => void;
}

/** Whose nodes these are, whether they are real, and what they cost together. */
export function Header(props: IProps): JSX.Element {
  const { status, list, trans, onCreate, onRefresh, onOpenSwitchboard } = props;
  return (
    <div className="jp-tpu-Header">
      <div className="jp-tpu-Header-line">
        <h2>{trans.__('TPU nodes')}</h2>
        <IconButton label={trans.__('Create a node')} icon={addIcon} onClick={onCreate} />
        <IconButton label={trans.__('Refresh the list')} icon={refreshIcon} onClick={onRefresh} />
      </div>
      {status?.project && (
        <div className="jp-tpu-Project jp-tpu-Muted" title={status.project}>
          {trans.__('Project %1', status.project)}
        </div>
      )}
      {status?.emulated && (
        <div className="jp-tpu-Header-line jp-mod-wrap">
          <div className="jp-tpu-Emulated">{trans.__('Emulated cloud: nothing is billed')}</div>
          {onOpenSwitchboard && (
            <Button
              title={trans.__('Pre-empt nodes, take capacity away, break links, move the clock')}
              onClick={onOpenSwitchboard}
            >
              {trans.__('Break it…')}
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
  onClick: () => void;
}

function IconButton({ label, icon, onClick }: IIconButtonProps): JSX.Element {
  const Icon = icon.react;
  return (
    <button
      type="button"
      className="jp-tpu-IconButton"
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
  const rate = isPartial ? trans.__('at least %1 per hour', usd) : trans.__('%1 per hour', usd);
  return (
    <div className="jp-tpu-Billing">
      {trans._n('%1 node running', '%1 nodes running', count)} · {rate}
    </div>
  );
}
