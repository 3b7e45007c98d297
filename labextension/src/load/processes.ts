/** TPU processes, grouped into programs; pure. */

import { IMetrics, ITpuProcess } from '../api.generated';

/** One process on one worker. */
export interface IWorkerProcess {
  readonly worker_id: number;
  readonly process: ITpuProcess;
}

/** Processes of the same program and user, on one or several workers. */
export interface IProgram {
  readonly key: string;
  readonly first: ITpuProcess;
  readonly processes: readonly IWorkerProcess[];
}

export function workerProcesses({ workers }: IMetrics): IWorkerProcess[] {
  return workers.flatMap(({ worker_id, sample }) =>
    (sample?.holders ?? []).map(process => ({ worker_id, process }))
  );
}

/** A program, or a kernel, on a slice runs once on each worker; two processes on one worker are two programs. */
export function programsOf(metrics: IMetrics): IProgram[] {
  const programs = new Map<string, IWorkerProcess[]>();
  for (const processes of workerProcesses(metrics)) {
    const key = keyFor(processes, programs);
    programs.set(key, [...(programs.get(key) ?? []), processes]);
  }
  return [...programs].map(([key, processes]) => ({ key, first: processes[0].process, processes }));
}

function keyFor(
  { worker_id, process }: IWorkerProcess,
  taken: ReadonlyMap<string, readonly IWorkerProcess[]>
): string {
  const { user, command, kernel_id, notebook, is_kernel } = process;
  // a kernel's processes on the other workers have another command line
  const what = is_kernel && kernel_id ? [user, kernel_id] : [user, command, kernel_id, notebook];
  for (let number = 0; ; number++) {
    const key = JSON.stringify([...what, number]);
    if (!taken.get(key)?.some(other => other.worker_id === worker_id)) {
      return key;
    }
  }
}
