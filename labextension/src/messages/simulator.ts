/** The failure simulator of the emulated cloud. */

import { TranslationBundle } from '@jupyterlab/translation';

// Page

export function title(trans: TranslationBundle): string {
  return trans.__('Failure simulator');
}

export function emulatedCloudOf(project: string, trans: TranslationBundle): string {
  return trans.__('Emulated cloud of project %1: costs are simulated', project);
}

export function loadingCloud(trans: TranslationBundle): string {
  return trans.__('Loading the emulated cloud…');
}

export function resetEllipsis(trans: TranslationBundle): string {
  return trans.__('Reset…');
}

export function simulatedCost(usd: string, trans: TranslationBundle): string {
  return trans.__('Simulated cost: %1', usd);
}

export function resetQuestion(trans: TranslationBundle): string {
  return trans.__('Reset the emulated cloud?');
}

export function resetConsequences(trans: TranslationBundle): string {
  return trans.__(
    'Deletes all its nodes with their disks and files, and stops their kernels. Faults, limits, quotas and costs are reset.'
  );
}

export function reset(trans: TranslationBundle): string {
  return trans.__('Reset');
}

// Clock

export function clock(trans: TranslationBundle): string {
  return trans.__('Emulated clock');
}

export function speed(trans: TranslationBundle): string {
  return trans.__('Speed');
}

export function timesRealTime(scale: number, trans: TranslationBundle): string {
  return trans.__('%1 × real time', scale);
}

export function resume(trans: TranslationBundle): string {
  return trans.__('Resume');
}

export function pause(trans: TranslationBundle): string {
  return trans.__('Pause');
}

export function plusMinute(trans: TranslationBundle): string {
  return trans.__('+1 min');
}

export function plusHour(trans: TranslationBundle): string {
  return trans.__('+1 hour');
}

export function plusDay(trans: TranslationBundle): string {
  return trans.__('+1 day');
}

export function paused(trans: TranslationBundle): string {
  return trans.__('paused');
}

export function clockPaused(trans: TranslationBundle): string {
  return trans.__('The clock is paused.');
}

export function clockRuns(trans: TranslationBundle): string {
  return trans.__('The clock is running.');
}

// Nodes

export function nodesAndQueued(trans: TranslationBundle): string {
  return trans.__('Nodes and queued resources');
}

export function nodes(trans: TranslationBundle): string {
  return trans.__('Nodes');
}

export function noNodes(trans: TranslationBundle): string {
  return trans.__('No nodes yet. Create one in the TPU panel.');
}

export function queuedResources(trans: TranslationBundle): string {
  return trans.__('Queued resources');
}

export function queuedResourceIn(zone: string, trans: TranslationBundle): string {
  return trans.__('queued resource · %1', zone);
}

export function maintenanceNote(trans: TranslationBundle): string {
  return trans.__('In 1 hour of emulated time');
}

export function announceMaintenance(name: string, trans: TranslationBundle): string {
  return trans.__('Announce maintenance of %1', name);
}

export function maintenanceIn1h(trans: TranslationBundle): string {
  return trans.__('Maintenance in 1 h');
}

export function underMaintenance(trans: TranslationBundle): string {
  return trans.__('Under maintenance');
}

export function maintenanceAt(moment: string, trans: TranslationBundle): string {
  return trans.__('Maintenance at %1', moment);
}

export function spot(trans: TranslationBundle): string {
  return trans.__('spot');
}

export function preemptNode(name: string, trans: TranslationBundle): string {
  return trans.__('Pre-empt %1', name);
}

export function preempt(trans: TranslationBundle): string {
  return trans.__('Pre-empt');
}

// Capacity

export function capacity(trans: TranslationBundle): string {
  return trans.__('Capacity');
}

export function limitedZones(trans: TranslationBundle): string {
  return trans.__('Zones with limited capacity');
}

export function unlimitedEverywhere(trans: TranslationBundle): string {
  return trans.__('Capacity is unlimited in every zone.');
}

export function removeLimitOf(family: string, zone: string, trans: TranslationBundle): string {
  return trans.__('Remove the limit of %1 in %2', family, zone);
}

export function stockOut(trans: TranslationBundle): string {
  return trans.__('stock-out');
}

export function chips(count: number, trans: TranslationBundle): string {
  return trans._n('%1 chip', '%1 chips', count);
}

export function chipsInUse(used: number, chips: number, trans: TranslationBundle): string {
  return trans._n('%2 of %1 chip in use', '%2 of %1 chips in use', chips, used);
}

export function limitZone(trans: TranslationBundle): string {
  return trans.__('Limit the capacity of a zone');
}

export function totalChips(trans: TranslationBundle): string {
  return trans.__('Capacity (chips)');
}

export function chipsNote(trans: TranslationBundle): string {
  return trans.__('0 simulates a stock-out.');
}

export function setCapacity(trans: TranslationBundle): string {
  return trans.__('Set capacity');
}

// Scripted faults

export function faults(trans: TranslationBundle): string {
  return trans.__('Scripted faults');
}

export function pendingFaults(trans: TranslationBundle): string {
  return trans.__('Pending faults');
}

export function noFaults(trans: TranslationBundle): string {
  return trans.__('No pending faults.');
}

export function removeAllFaults(trans: TranslationBundle): string {
  return trans.__('Remove all faults');
}

export function removeFault(call: string, fault: string, trans: TranslationBundle): string {
  return trans.__('Remove the fault for %1: %2', call, fault);
}

export function everyTime(trans: TranslationBundle): string {
  return trans.__('every time');
}

export function times(count: number, trans: TranslationBundle): string {
  return trans._n('once', '%1 times', count);
}

export function addAFault(trans: TranslationBundle): string {
  return trans.__('Add a fault');
}

export function nextCallOf(trans: TranslationBundle): string {
  return trans.__('Next call to');
}

export function failsWith(trans: TranslationBundle): string {
  return trans.__('Fails with');
}

export function howOften(trans: TranslationBundle): string {
  return trans.__('How often');
}

export function addFault(trans: TranslationBundle): string {
  return trans.__('Add fault');
}

export function anyCall(trans: TranslationBundle): string {
  return trans.__('any method');
}

export function faultQuota(trans: TranslationBundle): string {
  return trans.__('Refused: quota used up (429)');
}

export function faultStockout(trans: TranslationBundle): string {
  return trans.__('Accepted, then no capacity (stock-out)');
}

export function faultNotAllowlisted(trans: TranslationBundle): string {
  return trans.__('Refused: project not on the allow-list');
}

export function faultPermissionDenied(trans: TranslationBundle): string {
  return trans.__('Refused: permission denied (403)');
}

export function faultApiDisabled(trans: TranslationBundle): string {
  return trans.__('Refused: Cloud TPU API disabled (403)');
}

export function faultLocationDenied(trans: TranslationBundle): string {
  return trans.__('Refused: location not allowed');
}

export function faultUnavailable(trans: TranslationBundle): string {
  return trans.__('Service unavailable (503)');
}

export function faultInternal(trans: TranslationBundle): string {
  return trans.__('Internal error (500)');
}

export function faultHtml(trans: TranslationBundle): string {
  return trans.__('Load balancer error page (502)');
}

export function faultTruncated(trans: TranslationBundle): string {
  return trans.__('Performed, but the response is truncated');
}

export function faultUnknownState(trans: TranslationBundle): string {
  return trans.__('Performed, but the response contains an unknown state');
}

export function faultLate(trans: TranslationBundle): string {
  return trans.__('Response delayed by 10 s');
}

export function faultDropped(trans: TranslationBundle): string {
  return trans.__('Connection dropped, call not performed');
}

export function faultResponseLost(trans: TranslationBundle): string {
  return trans.__('Performed, but the response is lost');
}

export function faultStuck(trans: TranslationBundle): string {
  return trans.__('Operation never finishes');
}

export function faultHidden(trans: TranslationBundle): string {
  return trans.__('New nodes stay hidden for 1 min of emulated time');
}

export function pendingFaultCount(count: number, trans: TranslationBundle): string {
  return trans._n('%1 pending fault.', '%1 pending faults.', count);
}

// Workers

export function workers(trans: TranslationBundle): string {
  return trans.__('Workers');
}

export function actOnWorker(action: string, name: string, trans: TranslationBundle): string {
  return trans.__('%1: machine of %2', action, name);
}

export function machineOf(name: string, trans: TranslationBundle): string {
  return trans.__('Machine of %1', name);
}

export function kill(trans: TranslationBundle): string {
  return trans.__('Kill');
}

export function killTitle(trans: TranslationBundle): string {
  return trans.__('All its processes are killed; you can still log in');
}

export function slowWorkerTitle(factor: number, trans: TranslationBundle): string {
  return trans.__('Its processes take %1 times as long', factor);
}

export function freeze(trans: TranslationBundle): string {
  return trans.__('Freeze');
}

export function freezeTitle(trans: TranslationBundle): string {
  return trans.__('Its processes are paused, as if the machine hung');
}

export function cutWorkerTitle(trans: TranslationBundle): string {
  return trans.__('No data passes between this worker and worker 0');
}

export function timesSlower(factor: number, trans: TranslationBundle): string {
  return trans.__('%1 × slower', factor);
}

export function frozen(trans: TranslationBundle): string {
  return trans.__('frozen');
}

export function cutFrom(id: number, trans: TranslationBundle): string {
  return trans.__('disconnected from worker %1', id);
}

// Connections to workers

export function connections(trans: TranslationBundle): string {
  return trans.__('Connections to workers');
}

export function noWorker(trans: TranslationBundle): string {
  return trans.__('No worker is running.');
}

export function workerOf(node: string, id: number, trans: TranslationBundle): string {
  return trans.__('%1, worker %2', node, id);
}

export function worker(id: number, trans: TranslationBundle): string {
  return trans.__('worker %1', id);
}

export function connectionTo(name: string, trans: TranslationBundle): string {
  return trans.__('Connection to %1', name);
}

export function actOnConnection(action: string, name: string, trans: TranslationBundle): string {
  return trans.__('%1: connection to %2', action, name);
}

export function slow(trans: TranslationBundle): string {
  return trans.__('Slow');
}

export function slowTitle(trans: TranslationBundle): string {
  return trans.__('Adds 300 ms in each direction');
}

export function stall(trans: TranslationBundle): string {
  return trans.__('Stall');
}

export function stallTitle(trans: TranslationBundle): string {
  return trans.__('Data is delayed, but not lost');
}

export function cut(trans: TranslationBundle): string {
  return trans.__('Disconnect');
}

export function cutTitle(trans: TranslationBundle): string {
  return trans.__('Connections are closed, and new ones are refused');
}

export function restore(trans: TranslationBundle): string {
  return trans.__('Restore');
}

export function restoreTitle(trans: TranslationBundle): string {
  return trans.__('Removes all faults');
}

export function connectionFine(trans: TranslationBundle): string {
  return trans.__('no faults');
}

export function slower(ms: number, trans: TranslationBundle): string {
  return trans.__('%1 ms slower', ms);
}

export function stalled(trans: TranslationBundle): string {
  return trans.__('stalled');
}

export function isCut(trans: TranslationBundle): string {
  return trans.__('disconnected');
}

export function dropsEverything(trans: TranslationBundle): string {
  return trans.__('drops all data');
}

// Project

export function project(trans: TranslationBundle): string {
  return trans.__('Project');
}

export function apiEnabled(trans: TranslationBundle): string {
  return trans.__('Cloud TPU API enabled');
}

export function projectLimits(trans: TranslationBundle): string {
  return trans.__('Project limits');
}

export function useCountOrEmpty(trans: TranslationBundle): string {
  return trans.__('Use a whole number, or leave the field empty for no limit.');
}

export function setLimits(trans: TranslationBundle): string {
  return trans.__('Set limits');
}

export function deniedPermissions(trans: TranslationBundle): string {
  return trans.__('Denied permissions');
}

export function deniedPermissionsNote(trans: TranslationBundle): string {
  return trans.__('For example tpu.nodes.create. Separate several with commas.');
}

export function deniedZones(trans: TranslationBundle): string {
  return trans.__('Denied zones');
}

export function deniedZonesNote(trans: TranslationBundle): string {
  return trans.__('For example us-central1-a. Separate several with commas.');
}

export function allowedTypes(trans: TranslationBundle): string {
  return trans.__('Allowed types');
}

export function allowedTypesNote(trans: TranslationBundle): string {
  return trans.__('For example v5e or v5p-8. Leave empty for all types.');
}

export function addressesPerRegion(trans: TranslationBundle): string {
  return trans.__('External IP addresses per region');
}

export function createsPerMinute(trans: TranslationBundle): string {
  return trans.__('Creation requests per minute');
}

// Quotas

export function quotas(trans: TranslationBundle): string {
  return trans.__('Quotas');
}

export function noQuota(trans: TranslationBundle): string {
  return trans.__('No quota is in use or limited.');
}

export function limit(trans: TranslationBundle): string {
  return trans.__('limit');
}

export function noLimit(trans: TranslationBundle): string {
  return trans.__('none');
}

export function setLimitOf(name: string, trans: TranslationBundle): string {
  return trans.__('Set the limit of %1', name);
}

export function setButton(trans: TranslationBundle): string {
  return trans.__('Set');
}

export function inUse(place: string, used: number, trans: TranslationBundle): string {
  return trans.__('%1 · %2 in use', place, used);
}
