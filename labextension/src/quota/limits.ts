import { IQuotaLimit } from '../api.generated';

/** Limits in use, and those with room where the user looks for a node. */
export function relevantLimits(
  limits: readonly IQuotaLimit[],
  chosenZone: string
): readonly IQuotaLimit[] {
  const hasRoom = (limit: IQuotaLimit): boolean =>
    (limit.limit ?? 0) > 0 && isIn(limit, chosenZone);
  return limits.filter(limit => isUsed(limit) || hasRoom(limit));
}

export function isUsed({ used, users }: IQuotaLimit): boolean {
  return used > 0 || users.length > 0;
}

export function isIn({ scope, location }: IQuotaLimit, zone: string): boolean {
  return scope === 'region' ? zone.startsWith(`${location}-`) : zone === location;
}
