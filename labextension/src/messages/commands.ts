/** Labels of commands, in the command palette and the menus (title case). */

import { TranslationBundle } from '@jupyterlab/translation';

/** The label in the palette, where all commands of JupyterLab are. */
export function inPalette(label: string, trans: TranslationBundle): string {
  return trans.__('TPU: %1', label);
}

// Nodes and notebooks

export function runOnTpu(trans: TranslationBundle): string {
  return trans.__('Run on TPU…');
}

export function runNotebookOnTpu(trans: TranslationBundle): string {
  return trans.__('Run Notebook on Node…');
}

export function newNode(trans: TranslationBundle): string {
  return trans.__('TPU Node…');
}

export function tpuPanel(trans: TranslationBundle): string {
  return trans.__('TPU Panel');
}

export function keepCurrentNode(trans: TranslationBundle): string {
  return trans.__("Keep This Notebook's Node Running 1 h");
}

export function showPanel(trans: TranslationBundle): string {
  return trans.__('Show Panel');
}

export function refreshNodes(trans: TranslationBundle): string {
  return trans.__('Refresh Nodes');
}

export function createNode(trans: TranslationBundle): string {
  return trans.__('Create Node…');
}

/** The card of the launcher. */
export function launchNode(trans: TranslationBundle): string {
  return trans.__('New TPU node…');
}

export function createCaption(trans: TranslationBundle): string {
  return trans.__('Create a Cloud TPU node');
}

export function recreateNode(trans: TranslationBundle): string {
  return trans.__('Recreate a TPU Node…');
}

export function openWhenReady(trans: TranslationBundle): string {
  return trans.__('Open a Notebook When a TPU Node Is Ready');
}

export function saveProfile(trans: TranslationBundle): string {
  return trans.__('Save a TPU Node Profile');
}

export function deleteProfile(trans: TranslationBundle): string {
  return trans.__('Delete a TPU Node Profile');
}

export function openExample(path: string, isLauncher: boolean, trans: TranslationBundle): string {
  const name = path.replace(/\.ipynb$/, '');
  return isLauncher ? trans.__('Example: %1', name) : trans.__('Open the TPU Example');
}

export function exampleCaption(trans: TranslationBundle): string {
  return trans.__('Open the example notebook on a TPU node; create a node first if there is none');
}

export function onNode(
  label: string,
  name: string,
  zone: string,
  trans: TranslationBundle
): string {
  return trans.__('%1: %2 in %3', label, name, zone);
}

export function openForm(trans: TranslationBundle): string {
  return trans.__('Create Node from a Suggestion…');
}

export function openConsole(trans: TranslationBundle): string {
  return trans.__('Open Google Cloud Console');
}

export function copyCommand(trans: TranslationBundle): string {
  return trans.__('Copy Command');
}

export function showSection(trans: TranslationBundle): string {
  return trans.__('Show Panel Section');
}

export function raiseBudget(trans: TranslationBundle): string {
  return trans.__('Raise Budget…');
}

export function dismissFailure(trans: TranslationBundle): string {
  return trans.__('Dismiss Failure');
}

export function openNotebook(trans: TranslationBundle): string {
  return trans.__('Open Notebook on Node');
}

export function switchKernel(trans: TranslationBundle): string {
  return trans.__('Run Current Notebook on Node');
}

export function stopNode(trans: TranslationBundle): string {
  return trans.__('Stop Node');
}

export function startNode(trans: TranslationBundle): string {
  return trans.__('Start Node');
}

export function deleteNode(trans: TranslationBundle): string {
  return trans.__('Delete Node');
}

export function releaseChips(trans: TranslationBundle): string {
  return trans.__('Release Chips of Node');
}

export function withEllipsis(label: string, trans: TranslationBundle): string {
  return trans.__('%1…', label);
}

export function stopNodes(trans: TranslationBundle): string {
  return trans.__('Stop Several TPU Nodes…');
}

// In the menu of a node's card

export function openNotebookHere(trans: TranslationBundle): string {
  return trans.__('New Notebook on This Node');
}

export function switchKernelHere(trans: TranslationBundle): string {
  return trans.__('Run Current Notebook Here');
}

export function keepRunningOneHour(trans: TranslationBundle): string {
  return trans.__('Keep Running 1 Hour');
}

export function changeAutostop(trans: TranslationBundle): string {
  return trans.__('Change Auto-Stop…');
}

export function releaseChipsHere(trans: TranslationBundle): string {
  return trans.__('Release Chips…');
}

export function stopHere(trans: TranslationBundle): string {
  return trans.__('Stop…');
}

export function startHere(trans: TranslationBundle): string {
  return trans.__('Start');
}

export function deleteHere(trans: TranslationBundle): string {
  return trans.__('Delete…');
}

export function cancelCreation(trans: TranslationBundle): string {
  return trans.__('Cancel Creation');
}

// Kernels on a node

export function openKernel(trans: TranslationBundle): string {
  return trans.__("Open a Kernel's Document");
}

export function restartKernel(trans: TranslationBundle): string {
  return trans.__('Restart a Kernel on a TPU Node…');
}

export function shutDownKernel(trans: TranslationBundle): string {
  return trans.__('Shut Down a Kernel on a TPU Node…');
}

// Auto-stop, spending and capacity

export function changeAutostopOf(trans: TranslationBundle): string {
  return trans.__('Change the Auto-Stop of a TPU Node');
}

export function keepRunning(trans: TranslationBundle): string {
  return trans.__('Keep Node Running');
}

export function setAutostop(trans: TranslationBundle): string {
  return trans.__('Change Auto-Stop for Node');
}

export function setRecreation(trans: TranslationBundle): string {
  return trans.__('Recreate Node After Pre-emption');
}

export function setBudget(trans: TranslationBundle): string {
  return trans.__('Set Budget');
}

export function removeBudget(trans: TranslationBundle): string {
  return trans.__('Remove Budget');
}

export function saveGrant(trans: TranslationBundle): string {
  return trans.__('Save Grant or Credit');
}

export function removeGrant(trans: TranslationBundle): string {
  return trans.__('Remove Grant or Credit');
}

export function search(trans: TranslationBundle): string {
  return trans.__('Search for Capacity');
}

export function cancelSearch(trans: TranslationBundle): string {
  return trans.__('Cancel Search');
}

export function queue(trans: TranslationBundle): string {
  return trans.__('Queue for Node');
}

export function removeQueued(trans: TranslationBundle): string {
  return trans.__('Remove Queued Resource');
}

export function cleanUp(trans: TranslationBundle): string {
  return trans.__('Clean Up Billable Resources');
}

export function stopAll(trans: TranslationBundle): string {
  return trans.__('Stop Everything…');
}

// Outputs and lost cells

export function restoreOutputs(trans: TranslationBundle): string {
  return trans.__('Restore All Outputs of This Notebook');
}

export function showOutputs(trans: TranslationBundle): string {
  return trans.__('Show Outputs Missing in This Notebook');
}

export function addCell(trans: TranslationBundle): string {
  return trans.__('Add a Cell for a Missing Output');
}

export function rerunLostCells(trans: TranslationBundle): string {
  return trans.__('Rerun Cells Lost with the Node…');
}

export function dismissLostCells(trans: TranslationBundle): string {
  return trans.__('Dismiss Cells Lost with the Node');
}

// Failure simulator

export function showSimulator(trans: TranslationBundle): string {
  return trans.__('Show Failure Simulator');
}

export function resetCloud(trans: TranslationBundle): string {
  return trans.__('Reset Emulated Cloud…');
}

export function setClock(trans: TranslationBundle): string {
  return trans.__('Set the Clock of the Emulated Cloud');
}

export function preemptNodes(trans: TranslationBundle): string {
  return trans.__('Pre-empt Nodes of the Emulated Cloud');
}

export function announceMaintenance(trans: TranslationBundle): string {
  return trans.__('Announce Maintenance of an Emulated Node');
}

export function breakWorker(trans: TranslationBundle): string {
  return trans.__('Simulate or Remove a Worker Failure');
}

export function disruptConnection(trans: TranslationBundle): string {
  return trans.__('Simulate or Remove a Connection Failure');
}

export function setCapacity(trans: TranslationBundle): string {
  return trans.__('Set the Capacity of an Emulated Zone');
}

export function setQuota(trans: TranslationBundle): string {
  return trans.__('Set a Quota of the Emulated Project');
}

export function setProject(trans: TranslationBundle): string {
  return trans.__('Set Permissions and Limits of the Emulated Project');
}

export function addFault(trans: TranslationBundle): string {
  return trans.__('Add a Scripted Fault to the Emulated Cloud');
}

export function removeFault(trans: TranslationBundle): string {
  return trans.__('Remove a Scripted Fault from the Emulated Cloud');
}

export function clearFaults(trans: TranslationBundle): string {
  return trans.__('Remove All Scripted Faults from the Emulated Cloud');
}
