import { INodeAutostop } from '../api.generated';

/** Extending postpones only the idle timeout and the maximum session length. */
export function canKeepRunning({ ends_why }: INodeAutostop): boolean {
  return ends_why === 'idle' || ends_why === 'session';
}

/** The node that stops next. */
export function nextToStop(autostops: readonly INodeAutostop[]): INodeAutostop | undefined {
  return [...autostops]
    .filter(({ ends_at }) => ends_at !== null)
    .sort((left, right) => (left.ends_at ?? 0) - (right.ends_at ?? 0))[0];
}
