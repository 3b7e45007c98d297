/** Ids of the failure simulator. Importing this module does nothing. */

export const SIMULATOR_ID = 'jupyter-tpu-switchboard';

/** Ids of the simulator's commands, which exist only where the cloud is emulated. */
export namespace SimulatorCommandIDs {
  export const open = 'tpu:open-switchboard';
  export const setClock = 'tpu:set-cloud-clock';
  export const preempt = 'tpu:preempt-nodes';
  export const maintain = 'tpu:announce-maintenance';
  export const faultLink = 'tpu:fault-link';
  export const faultWorker = 'tpu:fault-worker';
  export const setCapacity = 'tpu:set-capacity';
  export const setQuota = 'tpu:set-quota';
  export const setProject = 'tpu:set-project-switches';
  export const addFault = 'tpu:add-fault';
  export const removeFault = 'tpu:remove-fault';
  export const clearFaults = 'tpu:clear-faults';
  export const reset = 'tpu:reset-cloud';
}
