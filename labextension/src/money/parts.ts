/** The parts of the money sections, each loaded from its own route. Importing this module does nothing. */

import {
  IAudit,
  IAutostops,
  ICleanup,
  IGrants,
  IQueue,
  IQueued,
  IQuota,
  IRecoveries,
  ISearches,
  ISpend
} from '../api.generated';

/** The response for each part. */
export interface IAnswers {
  readonly spend: ISpend;
  readonly autostops: IAutostops;
  readonly recovery: IRecoveries;
  readonly searches: ISearches;
  readonly grants: IGrants;
  readonly quota: IQuota;
  readonly queue: IQueue;
  readonly cleanup: ICleanup;
  readonly audit: IAudit;
}

export type Part = keyof IAnswers;

/** A list that may be incomplete, with the zones that did not respond. */
export interface ICompleteness {
  readonly is_complete: boolean;
  readonly unreachable: readonly string[];
}

const WAITING = new Set(['CREATING', 'ACCEPTED', 'WAITING_FOR_RESOURCES', 'PROVISIONING']);

/** The queued resources that may still become nodes. */
export function waitingIn({ items }: IQueue): readonly IQueued[] {
  return items.filter(({ state }) => WAITING.has(state));
}
