import { IQuotaLimit } from '../api.generated';

/** Limits above zero without any usage, in the zone where the user looks for a node. */
export function limitsWithRoom(
  limits: readonly IQuotaLimit[],
  chosenZone: string
): readonly IQuotaLimit[] {
  return limits.filter(
    limit => !isUsed(limit) && (limit.limit ?? 0) > 0 && isIn(limit, chosenZone)
  );
}

export function isUsed({ used, users }: IQuotaLimit): boolean {
  return used > 0 || users.length > 0;
}

export function isIn({ scope, location }: IQuotaLimit, zone: string): boolean {
  return scope === 'region' ? zone.startsWith(`${location}-`) : zone === location;
}
