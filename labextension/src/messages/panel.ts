/** The panel: header, list of nodes, actions, and the questions before a node is stopped or deleted. */

import { TranslationBundle } from '@jupyterlab/translation';
import { INode, IPrice, Provisioning } from '../api.generated';
import { IRunning } from '../fleet';
import { formatUsd } from '../format';
import { formatCountdown } from '../money/moments';
import { Verb } from '../tokens';
import { formatPrice, provisioningName } from './units';

// Header

export function title(trans: TranslationBundle): string {
  return trans.__('TPU nodes');
}

export function refreshList(trans: TranslationBundle): string {
  return trans.__('Refresh the list');
}

export function refreshing(trans: TranslationBundle): string {
  return trans.__('Refreshing from the cloud…');
}

export function project(project: string, trans: TranslationBundle): string {
  return trans.__('Project %1', project);
}

export function simulateFailure(trans: TranslationBundle): string {
  return trans.__('Simulate a failure…');
}

/** How many nodes run, and how many are about to stop: `1 running · 2 stopping`. */
export function nodesRunning(
  { running, stopping, deleting }: IRunning,
  trans: TranslationBundle
): string {
  return [
    ...(running > 0 ? [trans.__('%1 running', running)] : []),
    ...(stopping > 0 ? [trans.__('%1 stopping', stopping)] : []),
    ...(deleting > 0 ? [trans.__('%1 being deleted', deleting)] : [])
  ].join(' · ');
}

// List of nodes

export function serverExtensionMissing(trans: TranslationBundle): string {
  return trans.__('The jupyter_tpu server extension is not running.');
}

export function installServerExtension(trans: TranslationBundle): string {
  return trans.__(
    "Install jupyter-tpu in the Jupyter server's environment and restart the server."
  );
}

export function loadingNodes(trans: TranslationBundle): string {
  return trans.__('Loading nodes…');
}

export function notRestoredInSharedNotebooks(trans: TranslationBundle): string {
  return trans.__('Missed outputs are not restored in notebooks that several people edit at once.');
}

export function zonesUnreachable(zones: string, trans: TranslationBundle): string {
  return trans.__('No response from %1: nodes there are not listed.', zones);
}

export function loadingOffers(trans: TranslationBundle): string {
  return trans.__('Loading accelerator types…');
}

export function nodes(trans: TranslationBundle): string {
  return trans.__('Nodes');
}

export function listTools(trans: TranslationBundle): string {
  return trans.__('Filter, sort and select nodes');
}

export function filterNodes(trans: TranslationBundle): string {
  return trans.__('Filter nodes');
}

export function noMatch(trans: TranslationBundle): string {
  return trans.__('No node matches the filter.');
}

export function sortBy(trans: TranslationBundle): string {
  return trans.__('Sort by');
}

export function orderName(order: 'name' | 'state' | 'cost', trans: TranslationBundle): string {
  const names: { readonly [order: string]: string } = {
    name: trans.__('by name'),
    state: trans.__('by state'),
    cost: trans.__('by cost')
  };
  return names[order];
}

export function select(trans: TranslationBundle): string {
  return trans.__('Select');
}

export function selectHint(trans: TranslationBundle): string {
  return trans.__('Select several nodes to stop them');
}

export function selectNode(name: string, trans: TranslationBundle): string {
  return trans.__('Select %1', name);
}

export function stopSelected(count: number, trans: TranslationBundle): string {
  return trans._n('Stop %1 selected node', 'Stop %1 selected nodes', count);
}

export function noNodes(trans: TranslationBundle): string {
  return trans.__('No nodes.');
}

export function noNodesHint(trans: TranslationBundle): string {
  return trans.__('Create a node to run notebooks on it as you would on a local kernel.');
}

export function nodeGone(name: string, trans: TranslationBundle): string {
  return trans.__('%1 no longer exists.', name);
}

// One node

export function notCreatedByUs(trans: TranslationBundle): string {
  return trans.__('Not created by jupyter_tpu; may be in use by someone else.');
}

export function recreateEllipsis(trans: TranslationBundle): string {
  return trans.__('Recreate…');
}

export function recreateTitle(name: string, trans: TranslationBundle): string {
  return trans.__('Recreate %1…', name);
}

/** Auto-recovery is replacing a node that was pre-empted. */
export function recreating(trans: TranslationBundle): string {
  return trans.__('Pre-empted · recreating');
}

export function reclaimed(trans: TranslationBundle): string {
  return trans.__(
    'Google Cloud reclaimed this node. It counts against your quota until you delete it.'
  );
}

export function costSoFar(cost: string, trans: TranslationBundle): string {
  return trans.__('%1 so far', cost);
}

export function size(trans: TranslationBundle): string {
  return trans.__('Size');
}

export function created(trans: TranslationBundle): string {
  return trans.__('Created');
}

export function health(trans: TranslationBundle): string {
  return trans.__('Health');
}

export function addresses(trans: TranslationBundle): string {
  return trans.__('Addresses');
}

export function price(trans: TranslationBundle): string {
  return trans.__('Price');
}

export function fullName(trans: TranslationBundle): string {
  return trans.__('Full name');
}

export function description(trans: TranslationBundle): string {
  return trans.__('Description');
}

/** A state in one or two words; a state that is not in the list keeps the API's spelling. */
export function stateName(state: string, trans: TranslationBundle): string {
  const names: { readonly [state: string]: string } = {
    CREATING: trans.__('Creating'),
    READY: trans.__('Ready'),
    RESTARTING: trans.__('Restarting'),
    REIMAGING: trans.__('Reimaging'),
    DELETING: trans.__('Deleting'),
    REPAIRING: trans.__('Repairing'),
    STOPPED: trans.__('Stopped'),
    STOPPING: trans.__('Stopping'),
    STARTING: trans.__('Starting'),
    PREEMPTED: trans.__('Pre-empted'),
    TERMINATED: trans.__('Terminated'),
    HIDING: trans.__('Hiding'),
    HIDDEN: trans.__('Hidden'),
    UNHIDING: trans.__('Unhiding'),
    // of queued resources
    ACCEPTED: trans.__('Accepted'),
    PROVISIONING: trans.__('Provisioning'),
    WAITING_FOR_RESOURCES: trans.__('Waiting for capacity'),
    ACTIVE: trans.__('Active'),
    SUSPENDING: trans.__('Suspending'),
    SUSPENDED: trans.__('Suspended'),
    FAILED: trans.__('Failed')
  };
  return names[state] ?? (state.startsWith('UNKNOWN') ? trans.__('Unknown') : state);
}

export function pricePerHour(usd: string, trans: TranslationBundle): string {
  return trans.__('%1/h', usd);
}

/** In place of the price of a node that a grant covers. */
export function grant(trans: TranslationBundle): string {
  return trans.__('grant');
}

export function priceUnknown(trans: TranslationBundle): string {
  return trans.__('price unknown');
}

export function diskBilled(trans: TranslationBundle): string {
  return trans.__('Only the disk is billed');
}

export function usesQuota(trans: TranslationBundle): string {
  return trans.__('Counts against your quota');
}

export function details(trans: TranslationBundle): string {
  return trans.__('Details');
}

export function copyOf(what: string, trans: TranslationBundle): string {
  return trans.__('Copy: %1', what);
}

export function sshCommand(trans: TranslationBundle): string {
  return trans.__('SSH command');
}

export function inTerminal(trans: TranslationBundle): string {
  return trans.__('to run in a terminal');
}

// Kernels of a node

export function openDocument(path: string, trans: TranslationBundle): string {
  return trans.__('Open %1', path);
}

export function noKernels(trans: TranslationBundle): string {
  return trans.__('No notebook runs on this node.');
}

export function kernelsOn(name: string, trans: TranslationBundle): string {
  return trans.__('Kernels on %1', name);
}

export function kernelState(state: 'starting' | 'busy' | 'idle', trans: TranslationBundle): string {
  switch (state) {
    case 'starting':
      return trans.__('starting');
    case 'busy':
      return trans.__('busy');
    case 'idle':
      return trans.__('idle');
  }
}

export function restartKernel(name: string, trans: TranslationBundle): string {
  return trans.__('Restart the kernel of %1', name);
}

export function shutDownKernel(name: string, trans: TranslationBundle): string {
  return trans.__('Shut down the kernel of %1', name);
}

export function restartQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Restart the kernel of %1?', name);
}

export function restartButton(trans: TranslationBundle): string {
  return trans.__('Restart');
}

export function shutDownQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Shut down the kernel of %1?', name);
}

export function shutDownButton(trans: TranslationBundle): string {
  return trans.__('Shut down');
}

export function variablesLost(trans: TranslationBundle): string {
  return trans.__('Its variables are lost. The node keeps running.');
}

// Actions of a node

export function openNotebookOn(name: string, trans: TranslationBundle): string {
  return trans.__('Open new notebook on %1', name);
}

export function openNotebookHint(trans: TranslationBundle): string {
  return trans.__('Open a new notebook on this node');
}

export function openNotebookButton(trans: TranslationBundle): string {
  return trans.__('Open new notebook');
}

/** The label of the button on a narrow card. */
export function openButton(trans: TranslationBundle): string {
  return trans.__('Open');
}

export function kernelNotReady(trans: TranslationBundle): string {
  return trans.__("The kernel isn't ready yet.");
}

/** The text of the button; what is billed from then on is its price, if known. */
export function startButton(price: IPrice | null, trans: TranslationBundle): string {
  return price ? trans.__('Start · %1/h', formatUsd(price.usd_per_hour)) : trans.__('Start');
}

export function startTitle(name: string, price: IPrice | null, trans: TranslationBundle): string {
  return price
    ? trans.__('Start %1: %2 per hour at list price', name, formatUsd(price.usd_per_hour))
    : trans.__('Start %1: its price is unknown', name);
}

export function cancelCreating(name: string, trans: TranslationBundle): string {
  return trans.__('Cancel creating %1', name);
}

export function moreOn(name: string, trans: TranslationBundle): string {
  return trans.__('More actions on %1', name);
}

// Questions before an action

export function deleteQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Delete %1?', name);
}

export function recreateQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Recreate %1?', name);
}

export function recreateButton(trans: TranslationBundle): string {
  return trans.__('Delete and recreate');
}

export function stopQuestion(name: string, trans: TranslationBundle): string {
  return trans.__('Stop %1?', name);
}

export function stopManyQuestion(count: number, trans: TranslationBundle): string {
  return trans._n('Stop %1 node?', 'Stop %1 nodes?', count);
}

export function stopManyConsequences(trans: TranslationBundle): string {
  return trans.__('Their kernels stop. Their disks are kept and billed.');
}

export function nodeToStop(
  name: string,
  place: string,
  rate: string,
  trans: TranslationBundle
): string {
  return trans.__('%1 (%2): %3', name, place, rate);
}

export function cannotStartAgain(trans: TranslationBundle): string {
  return trans.__("can't be started again");
}

export function grantCoversThem(trans: TranslationBundle): string {
  return trans.__('A grant covers them: they are not billed by the hour.');
}

export function hourlyBillingStops(rate: string, trans: TranslationBundle): string {
  return trans.__('They cost %1 now. Hourly billing stops.', rate);
}

export function noNodeFor(trans: TranslationBundle): string {
  return trans.__('No node is in a state that allows this action.');
}

export function subject(
  type: string,
  zone: string,
  state: string,
  trans: TranslationBundle
): string {
  return trans.__('%1 in %2, state %3', type, zone, state);
}

export function deleteConsequences(trans: TranslationBundle): string {
  return trans.__('Its disk and all files on it are deleted, and its kernels stop.');
}

export function notebooksStay(trans: TranslationBundle): string {
  return trans.__('Notebooks stay on the Jupyter server.');
}

export function recreateConsequences(name: string, trans: TranslationBundle): string {
  return trans.__(
    "%1 can't be started again, so it is deleted first, with its disk and all files on it. The form then opens with the same name and settings.",
    name
  );
}

export function mayBeInUse(trans: TranslationBundle): string {
  return trans.__('This node was not created by jupyter_tpu and may be in use by someone else.');
}

export function someMayBeInUse(trans: TranslationBundle): string {
  return trans.__(
    'Some of these nodes were not created by jupyter_tpu and may be in use by someone else.'
  );
}

export function kernelsStop(trans: TranslationBundle): string {
  return trans.__('Its kernels stop.');
}

export function stopConsequences(trans: TranslationBundle): string {
  return trans.__('Its kernels stop. Its disk is kept and billed, and you can start it again.');
}

/** Why a stopped node can only be deleted; empty if it can be started again. */
export function noStartText(
  node: { readonly provisioning?: Provisioning; readonly spot: boolean },
  trans: TranslationBundle
): string {
  // the cloud starts neither spot nor preemptible nodes again; `spot` says both
  return node.spot
    ? trans.__(
        "A %1 node can't be started again. Its disk is kept and billed until you delete the node.",
        provisioningName(node, trans)
      )
    : '';
}

/** The progress of an intent's verb. */
export function formatVerb(verb: Verb, trans: TranslationBundle): string {
  const names: { readonly [verb in Verb]: string } = {
    create: trans.__('Creating'),
    delete: trans.__('Deleting'),
    stop: trans.__('Stopping'),
    start: trans.__('Starting')
  };
  return names[verb] ?? verb;
}

/** The phase of an intent; empty if it says no more than the verb. */
export function phaseName(phase: string, trans: TranslationBundle): string {
  const names: { readonly [phase: string]: string } = {
    requested: trans.__('Requested'),
    asking: trans.__('Sending the request'),
    checking: trans.__('Checking for the node'),
    waiting: trans.__('Waiting until the node is READY'),
    provisioning: trans.__('Provisioning the node'),
    rolling_back: trans.__('Rolling back'),
    booting: trans.__('Booting'),
    deleting: '',
    stopping: '',
    starting: ''
  };
  return names[phase] ?? phase;
}

/** How long something has been in progress, and how long it usually takes: `0:41 of about 1:20`. */
export function progressTime(
  elapsed_s: number,
  usual_s: number | null,
  trans: TranslationBundle
): string {
  const elapsed = formatCountdown(elapsed_s);
  return usual_s === null ? elapsed : trans.__('%1 of about %2', elapsed, formatCountdown(usual_s));
}

/** The node's cost now, and how stopping or deleting it changes that. */
export function currentCost(
  { billing, state, price, cost_usd, covered }: INode,
  trans: TranslationBundle
): string {
  if (covered) {
    return trans.__('A grant covers it: it is not billed by the hour.');
  }
  if (!billing) {
    return state === 'STOPPED'
      ? trans.__('Only its disk is billed now.')
      : trans.__('It is not billed by the hour in this state.');
  }
  if (!price) {
    return trans.__('It is billed now (price unknown). Hourly billing stops.');
  }
  const rate = formatPrice(price, trans);
  return cost_usd === null
    ? trans.__('It costs %1 now. Hourly billing stops.', rate)
    : trans.__('It costs %1 now, %2 so far. Hourly billing stops.', rate, formatUsd(cost_usd));
}
