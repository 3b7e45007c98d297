import { IAutostops, INodeAutostop } from '../api.generated';
import { IPart } from '../money/tokens';

/** Default time between the warning and the stop, in seconds. */
export const WARNING_S = 600;

/** Whether an extension would help: it postpones only the idle timeout and the maximum session length. */
export function canKeepRunning({ ends_why }: INodeAutostop): boolean {
  return ends_why === 'idle' || ends_why === 'session';
}

/** Return the node that stops next. */
export function nextToStop(autostops: readonly INodeAutostop[]): INodeAutostop | undefined {
  return [...autostops]
    .filter(({ ends_at }) => ends_at !== null)
    .sort((left, right) => (left.ends_at ?? 0) - (right.ends_at ?? 0))[0];
}

/** Apply the user's warning time, but warn at most half of the idle timeout before the stop. */
export function withWarnings(part: IPart<IAutostops>, warning_s: number): IPart<IAutostops> {
  const { dated } = part;
  if (!dated) {
    return part;
  }
  const nodes = dated.data.nodes.map(one => {
    const limit_s = one.ends_why === 'idle' ? (one.idle_limit_s ?? Infinity) / 2 : Infinity;
    const left_s = (one.ends_at ?? Infinity) - dated.server_s;
    return { ...one, is_warning: left_s <= Math.min(warning_s, limit_s) && warning_s > 0 };
  });
  return { ...part, dated: { ...dated, data: { ...dated.data, nodes } } };
}
