import { LabIcon } from '@jupyterlab/ui-components';
import React from 'react';

interface IProps {
  label: string;
  icon: LabIcon;
  isBusy?: boolean;
  onClick: () => void;
}

/** A button with only an icon; `label` is its name and its tooltip. */
export function IconButton({ label, icon, isBusy, onClick }: IProps): JSX.Element {
  return (
    <button
      type="button"
      className={`jp-tpu-IconButton${isBusy ? ' jp-mod-busy' : ''}`}
      aria-busy={isBusy}
      aria-label={label}
      title={label}
      onClick={onClick}
    >
      <icon.react tag="span" className="jp-tpu-Icon" />
    </button>
  );
}
