/** Ways to a node, and what is known of each before it is taken; pure. */

import { offerOf } from '../../offers';
import { INodeKey, INodeSpec, IOffers } from '../../tokens';
import { IChoice } from '../client';
import { ICoverage } from '../grantrecords';
import { ICandidate, IQueueTerms, IQuotaAfter, ISearchTerms } from '../records';

/** How a node is to be had: now, wherever there is one, or when there is room. */
export type Way = 'now' | 'search' | 'queue';

/** What the form can ask for besides creating a node now. */
export interface IGettingActs {
  readonly onSearch: (terms: ISearchTerms) => Promise<void>;
  readonly onQueue: (terms: IQueueTerms) => Promise<void>;
  readonly onRecover: (key: INodeKey) => void;
  readonly coverage: (choice: IChoice) => Promise<ICoverage>;
  readonly quotaAfter: (choice: IChoice) => Promise<readonly IQuotaAfter[]>;
}

/** What the user has chosen besides the node itself. */
export interface IWayDraft {
  readonly way: Way;
  /** Candidates of a search whose box was clicked, by zone and type. */
  readonly toggled: ReadonlySet<string>;
  /** Minutes to wait in the queue where nothing is free at once; a text of the user. */
  readonly queueMinutes: string;
  /** Seconds after which a queued resource is given up; none for never. */
  readonly validFor_s: number | null;
  /** Make it again when it is taken back. */
  readonly again: boolean;
}

export const WAY_DRAFT: IWayDraft = {
  way: 'now',
  toggled: new Set(),
  queueMinutes: '',
  validFor_s: 6 * 3600,
  again: false
};

export function candidateKey({ zone, accelerator_type }: ICandidate): string {
  return `${zone}/${accelerator_type}`;
}

/**
 * Where else the same could be had: the chosen type in all its zones, and other generations of as many chips.
 *
 * The chosen zone and type come first, the same type elsewhere next.
 */
export function candidatesFor(offers: IOffers, spec: INodeSpec): ICandidate[] {
  const chips = offerOf(offers, spec)?.chips;
  const all = Object.entries(offers.zones).flatMap(([zone, list]) =>
    list
      .filter(one => one.chips === chips && one.runtime_versions.length > 0)
      .map(({ accelerator_type, runtime_versions }) => ({
        zone,
        accelerator_type,
        runtime_version: runtime_versions.includes(spec.runtime_version)
          ? spec.runtime_version
          : runtime_versions[0],
        spot: spec.spot
      }))
  );
  const distance = (one: ICandidate): number =>
    (one.accelerator_type === spec.accelerator_type ? 0 : 2) + (one.zone === spec.zone ? 0 : 1);
  return all.sort((left, right) => distance(left) - distance(right));
}

/** Only the type that was chosen is accepted, unless the user says more. */
export function isAccepted(candidate: ICandidate, spec: INodeSpec, draft: IWayDraft): boolean {
  const isOwn = candidate.accelerator_type === spec.accelerator_type;
  return isOwn !== draft.toggled.has(candidateKey(candidate));
}

export function searchTerms(offers: IOffers, spec: INodeSpec, draft: IWayDraft): ISearchTerms {
  const candidates = candidatesFor(offers, spec).filter(one => isAccepted(one, spec, draft));
  const minutes = Number(draft.queueMinutes);
  return { node_id: spec.node_id, candidates, ...(minutes > 0 ? { queue_minutes: minutes } : {}) };
}

export function queueTerms(spec: INodeSpec, { validFor_s }: IWayDraft): IQueueTerms {
  return { ...spec, ...(validFor_s === null ? {} : { valid_for_s: validFor_s }) };
}
