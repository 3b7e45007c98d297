/** Which kernels run on nodes; pure. */

import { KernelSpec } from '@jupyterlab/services';

/** The name of this project's kernel provisioner in kernelspecs. */
const PROVISIONER = 'tpu';

/** Whether a kernel may run on a node: a kernelspec that is unknown here may be a node's. */
export function mayRunOnNode(
  kernelName: string,
  specs: KernelSpec.ISpecModels | null | undefined
): boolean {
  const spec = specs?.kernelspecs[kernelName];
  return !spec || provisionerOf(spec)?.provisioner_name === PROVISIONER;
}

/** The full name of the node on which kernels of this name run; null if unknown. */
export function nodeNameOf(
  kernelName: string,
  specs: KernelSpec.ISpecModels | null | undefined
): string | null {
  const provisioner = provisionerOf(specs?.kernelspecs[kernelName]);
  const node = provisioner?.config?.node;
  return provisioner?.provisioner_name === PROVISIONER && typeof node === 'string' ? node : null;
}

interface IProvisioner {
  readonly provisioner_name?: unknown;
  readonly config?: { readonly node?: unknown };
}

function provisionerOf(spec: KernelSpec.ISpecModel | undefined): IProvisioner | undefined {
  const metadata = spec?.metadata as { kernel_provisioner?: IProvisioner } | undefined;
  return metadata?.kernel_provisioner;
}
