import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { INode } from '../api.generated';
import { IKernelActions, KernelList, KernelNames } from './kernellist';
import { INodeKernels } from './kernels';

/** Renders the kernels of a node in its card, independently of the card. */
export interface IKernelRenderers {
  /** The notebooks on a closed card. */
  readonly names: (node: INode) => JSX.Element;
  /** The kernels on an open card. */
  readonly list: (node: INode) => JSX.Element;
  /** Renders something that depends on whether a kernel is starting on the node. */
  readonly whileStarting: (
    node: INode,
    render: (isStarting: boolean) => JSX.Element | undefined
  ) => JSX.Element;
}

export function kernelRenderers(
  kernels: INodeKernels,
  actions: IKernelActions,
  trans: TranslationBundle
): IKernelRenderers {
  return {
    names: node => (
      <UseSignal signal={kernels.changed}>
        {() => <KernelNames kernels={kernels.of(node)} actions={actions} trans={trans} />}
      </UseSignal>
    ),
    list: node => (
      <UseSignal signal={kernels.changed}>
        {() => (
          <KernelList
            name={node.node_id}
            kernels={kernels.of(node)}
            actions={actions}
            trans={trans}
          />
        )}
      </UseSignal>
    ),
    whileStarting: (node, render) => (
      <UseSignal signal={kernels.changed}>{() => render(kernels.isStarting(node))}</UseSignal>
    )
  };
}
