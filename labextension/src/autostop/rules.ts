import { INodeAutostop } from '../api.generated';

/** A keep holds off the idle rule and the end of a session, and nothing else. */
export function canKeepRunning({ ends_why }: INodeAutostop): boolean {
  return ends_why === 'idle' || ends_why === 'session';
}

/** The node that ends first, of those whose end is known. */
export function nextToStop(autostops: readonly INodeAutostop[]): INodeAutostop | undefined {
  return [...autostops]
    .filter(({ ends_at }) => ends_at !== null)
    .sort((left, right) => (left.ends_at ?? 0) - (right.ends_at ?? 0))[0];
}
