/** The draft of a node, and its requests for creating, searching or queueing; pure. */

import { ICoverage, INewQueued, INewSearch, IOffers, IQuotasAfter } from '../api.generated';
import { priceOf } from '../format';
import { IChoice } from '../money/client';
import { INodeKey, INodeSpec } from '../tokens';
import { offerOf, termsOf, withTerms } from './offers';

/** How to get a node: create it now, search for it, or queue it. */
export type Way = 'now' | 'search' | 'queue';

/** A zone and an accelerator type that the user accepts. */
export type ICandidate = Omit<INodeSpec, 'node_id' | 'accept_unknown_price'>;

/** The form's requests, in addition to creating a node immediately. */
export interface ICreateActions {
  readonly onSearch: (terms: INewSearch) => Promise<void>;
  readonly onQueue: (terms: INewQueued) => Promise<void>;
  /** The queued nodes, if known. */
  readonly queued: () => readonly INodeKey[];
  readonly onRecover: (key: INodeKey) => void;
  readonly coverage: (choice: IChoice) => Promise<ICoverage>;
  readonly quotaAfter: (choice: IChoice) => Promise<IQuotasAfter>;
}

/** The user's choices in addition to the node itself. */
export interface IWayDraft {
  readonly way: Way;
  /** Candidates of a search whose checkbox the user has changed, by zone and type. */
  readonly toggled: ReadonlySet<string>;
  /** Minutes to keep searching, as typed; empty for one round. */
  readonly minutes: string;
  /** Seconds after which a queued resource expires. */
  readonly validFor_s: number;
  /** Hours until the cloud deletes a flex-start node, as typed. */
  readonly runHours: string;
  /** The reservation to use; empty for any matching one. */
  readonly reservation: string;
  /** Whether to recreate the node after a pre-emption. */
  readonly recreate: boolean;
  /** Whether to create the node even if its price is unknown. */
  readonly acceptsUnknownPrice: boolean;
}

export const WAY_DRAFT: IWayDraft = {
  way: 'now',
  toggled: new Set(),
  minutes: '',
  validFor_s: 6 * 3600,
  runHours: '4',
  reservation: '',
  recreate: false,
  acceptsUnknownPrice: false
};

/** Return how to get the node; flex-start nodes are always queued. */
export function wayOf(spec: INodeSpec, draft: IWayDraft): Way {
  return termsOf(spec) === 'flex-start' ? 'queue' : draft.way;
}

const MIN_RUN_S = 60;
const MAX_RUN_S = 7 * 86_400;

/** Return how long a flex-start node runs, in seconds; null if the text is invalid. */
export function runTime({ runHours }: IWayDraft): number | null {
  const run_s = runHours.trim() === '' ? NaN : Math.round(Number(runHours) * 3600);
  return run_s >= MIN_RUN_S && run_s <= MAX_RUN_S ? run_s : null;
}

export function candidateKey({ zone, accelerator_type }: ICandidate): string {
  return `${zone}/${accelerator_type}`;
}

/**
 * Return alternatives: the chosen type in all its zones, and other generations with the same number of chips.
 *
 * The chosen zone and type come first, then the same type in other zones.
 */
export function candidatesFor(offers: IOffers, spec: INodeSpec): ICandidate[] {
  const chips = offerOf(offers, spec)?.chips;
  const terms = requestedTerms(spec);
  const all = Object.entries(offers.zones).flatMap(([zone, list]) =>
    list
      .filter(one => one.chips === chips && one.runtime_versions.length > 0)
      .map(({ accelerator_type, runtime_versions }) => ({
        zone,
        accelerator_type,
        runtime_version: runtime_versions.includes(spec.runtime_version)
          ? spec.runtime_version
          : runtime_versions[0],
        ...terms
      }))
  );
  const distance = (one: ICandidate): number =>
    (one.accelerator_type === spec.accelerator_type ? 0 : 2) + (one.zone === spec.zone ? 0 : 1);
  return all.sort((left, right) => distance(left) - distance(right));
}

/** Whether a candidate is accepted: by default only the chosen type, but the user can select others. */
export function isAccepted(candidate: ICandidate, spec: INodeSpec, draft: IWayDraft): boolean {
  const isOwn = candidate.accelerator_type === spec.accelerator_type;
  return isOwn !== draft.toggled.has(candidateKey(candidate));
}

export function searchTerms(offers: IOffers, spec: INodeSpec, draft: IWayDraft): INewSearch {
  const candidates = candidatesFor(offers, spec).filter(one => isAccepted(one, spec, draft));
  const minutes = Number(draft.minutes);
  return {
    node_id: spec.node_id,
    candidates,
    ...(minutes > 0 ? { queue_minutes: minutes } : {}),
    ...acceptance(draft)
  };
}

export function queueTerms(spec: INodeSpec, draft: IWayDraft): INewQueued {
  const terms = termsOf(spec);
  const run_for_s = terms === 'flex-start' ? runTime(draft) : null;
  const reservation = terms === 'reserved' ? draft.reservation.trim() : '';
  return {
    ...nowTerms(spec, draft),
    valid_for_s: draft.validFor_s,
    ...(run_for_s === null ? {} : { run_for_s }),
    ...(reservation ? { reservation } : {})
  };
}

export function nowTerms(spec: INodeSpec, draft: IWayDraft): INodeSpec {
  const { node_id, zone, accelerator_type, runtime_version } = spec;
  return {
    ...{ node_id, zone, accelerator_type, runtime_version },
    ...requestedTerms(spec),
    ...acceptance(draft)
  };
}

type Terms = Omit<ICandidate, 'zone' | 'accelerator_type' | 'runtime_version'>;

/** Return the chosen options and the provisioning model, without implied fields. */
function requestedTerms(spec: INodeSpec): Terms {
  const terms = termsOf(spec);
  const isSaid = terms === 'spot' || terms === 'on-demand';
  // every option is a flag
  const chosen = Object.entries(spec).filter(([, value]) => value === true);
  return {
    ...Object.fromEntries(chosen),
    spot: terms === 'spot',
    ...(isSaid ? {} : { provisioning: terms })
  };
}

function acceptance({ acceptsUnknownPrice }: IWayDraft): { accept_unknown_price?: true } {
  return acceptsUnknownPrice ? { accept_unknown_price: true } : {};
}

/** Return the zones without a known price or a covering grant, which the user must accept first. */
export function unpricedZones(
  offers: IOffers,
  spec: INodeSpec,
  draft: IWayDraft
): readonly string[] {
  const terms = termsOf(spec);
  const wanted =
    wayOf(spec, draft) === 'search' ? searchTerms(offers, spec, draft).candidates : [spec];
  const unpriced = wanted.filter(one => {
    const offer = offerOf(offers, one);
    return offer !== undefined && priceOf(offer, terms) === null && !offer.covered.includes(terms);
  });
  return [...new Set(unpriced.map(({ zone }) => zone))];
}

/** Return the choice without the name, so that it can be made again. */
export function choiceOf(spec: INodeSpec, draft: IWayDraft): ICandidate & { way: Way } {
  const { zone, accelerator_type, runtime_version } = spec;
  return {
    ...{ zone, accelerator_type, runtime_version },
    ...requestedTerms(spec),
    // always included, because the choice that it is merged with may have another model
    ...withTerms(termsOf(spec)),
    way: wayOf(spec, draft)
  };
}
