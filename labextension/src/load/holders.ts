/** Processes that hold chips, those that belong together as one; pure. */

import { IHolder, IMetrics } from './records';

/** One process on one worker. */
export interface IHeld {
  readonly worker_id: number;
  readonly holder: IHolder;
}

/** The same program of the same user, on one worker or on many. */
export interface IProgram {
  readonly key: string;
  readonly first: IHolder;
  readonly held: readonly IHeld[];
}

export function heldOf({ workers }: IMetrics): IHeld[] {
  return workers.flatMap(({ worker_id, sample }) =>
    (sample?.holders ?? []).map(holder => ({ worker_id, holder }))
  );
}

/** A program of a slice runs once on each of its workers; two processes of one worker are two programs. */
export function programsOf(metrics: IMetrics): IProgram[] {
  const programs = new Map<string, IHeld[]>();
  for (const held of heldOf(metrics)) {
    const key = keyFor(held, programs);
    programs.set(key, [...(programs.get(key) ?? []), held]);
  }
  return [...programs].map(([key, held]) => ({ key, first: held[0].holder, held }));
}

function keyFor(
  { worker_id, holder }: IHeld,
  taken: ReadonlyMap<string, readonly IHeld[]>
): string {
  const { user, command, kernel_id, notebook } = holder;
  for (let number = 0; ; number++) {
    const key = JSON.stringify([user, command, kernel_id, notebook, number]);
    if (!taken.get(key)?.some(other => other.worker_id === worker_id)) {
      return key;
    }
  }
}
