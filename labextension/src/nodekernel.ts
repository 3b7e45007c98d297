/** Which kernels run on nodes; pure. */

import { KernelSpec } from '@jupyterlab/services';

/** The kernel provisioner of nodes, as kernelspecs name it. */
const PROVISIONER = 'tpu';

/** False for what surely runs elsewhere; a kernelspec that is not known here may be that of a node. */
export function mayRunOnNode(
  kernelName: string,
  specs: KernelSpec.ISpecModels | null | undefined
): boolean {
  const spec = specs?.kernelspecs[kernelName];
  const metadata = spec?.metadata as
    { kernel_provisioner?: { provisioner_name?: unknown } } | undefined;
  return !spec || metadata?.kernel_provisioner?.provisioner_name === PROVISIONER;
}
