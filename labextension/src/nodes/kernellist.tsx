import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, refreshIcon } from '@jupyterlab/ui-components';
import React from 'react';
import { IconButton } from '../components/iconbutton';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { INodeKernel } from './kernels';

/** Callbacks of the buttons on kernels; each runs a command. */
export interface IKernelActions {
  onOpen: (kernel: INodeKernel) => void;
  onRestart: (kernel: INodeKernel) => void;
  onShutDown: (kernel: INodeKernel) => void;
}

interface IProps {
  kernels: readonly INodeKernel[];
  actions: IKernelActions;
  trans: TranslationBundle;
}

/** The first notebook on a node, and how many more there are. */
export function KernelNames({ kernels, actions, trans }: IProps): JSX.Element | null {
  const [first, ...others] = kernels;
  return first === undefined ? null : (
    <>
      <KernelLink kernel={first} actions={actions} trans={trans} />
      {others.length > 0 && (
        <span title={others.map(({ name }) => name).join('\n')}>
          {common.andMore(others.length, trans)}
        </span>
      )}
    </>
  );
}

interface IKernelProps {
  kernel: INodeKernel;
  actions: IKernelActions;
  trans: TranslationBundle;
}

function KernelLink({ kernel, actions, trans }: IKernelProps): JSX.Element {
  return (
    <button
      type="button"
      className="jp-tpu-Link"
      title={messages.openDocument(kernel.path, trans)}
      onClick={() => actions.onOpen(kernel)}
    >
      <bdi>{kernel.name}</bdi>
    </button>
  );
}

/** The kernels of a node with their documents, and buttons to open, restart and shut them down. */
export function KernelList({
  name,
  kernels,
  actions,
  trans
}: IProps & { name: string }): JSX.Element {
  if (kernels.length === 0) {
    return <div className="jp-tpu-Muted">{messages.noKernels(trans)}</div>;
  }
  return (
    <ul className="jp-tpu-Kernels" aria-label={messages.kernelsOn(name, trans)}>
      {kernels.map(kernel => (
        <li key={kernel.sessionId}>
          <KernelLink {...{ kernel, actions, trans }} />
          <span className="jp-tpu-Muted">{messages.kernelState(kernel.state, trans)}</span>
          <IconButton
            label={messages.restartKernel(kernel.name, trans)}
            icon={refreshIcon}
            onClick={() => actions.onRestart(kernel)}
          />
          <IconButton
            label={messages.shutDownKernel(kernel.name, trans)}
            icon={closeIcon}
            onClick={() => actions.onShutDown(kernel)}
          />
        </li>
      ))}
    </ul>
  );
}
