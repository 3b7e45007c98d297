/** The draft of a node, and its requests to create, search or queue; pure. */

import { ICoverage, INewQueued, INewSearch, IOffers, IQuotasAfter } from '../api.generated';
import { priceOf } from '../format';
import { IChoice } from '../money/client';
import { INodeKey, INodeSpec } from '../tokens';
import { offerOf, termsOf, withTerms } from './offers';

/** Create the node now, search for one, or queue for one. */
export type Way = 'now' | 'search' | 'queue';

/** A place and a type that the user would accept. */
export type ICandidate = Omit<INodeSpec, 'node_id' | 'accept_unknown_price'>;

/** Requests of the form besides creating a node now. */
export interface ICreateActions {
  readonly onSearch: (terms: INewSearch) => Promise<void>;
  readonly onQueue: (terms: INewQueued) => Promise<void>;
  /** The nodes that are queued, as far as known. */
  readonly queued: () => readonly INodeKey[];
  readonly onRecover: (key: INodeKey) => void;
  readonly coverage: (choice: IChoice) => Promise<ICoverage>;
  readonly quotaAfter: (choice: IChoice) => Promise<IQuotasAfter>;
}

/** The user's choices besides the node itself. */
export interface IWayDraft {
  readonly way: Way;
  /** Candidates of a search whose checkbox was clicked, by zone and type. */
  readonly toggled: ReadonlySet<string>;
  /** Minutes to keep searching, as typed; empty for one round. */
  readonly minutes: string;
  /** Seconds until a queued resource is given up. */
  readonly validFor_s: number;
  /** Hours until the cloud deletes a flex-start node, as typed. */
  readonly runHours: string;
  /** The reservation to use; empty for any that fits. */
  readonly reservation: string;
  /** Recreate after pre-emption. */
  readonly recreate: boolean;
  /** Create the node even if its price is unknown. */
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

/** The chosen way: flex-start nodes come only from the queue. */
export function wayOf(spec: INodeSpec, draft: IWayDraft): Way {
  return termsOf(spec) === 'flex-start' ? 'queue' : draft.way;
}

const MIN_RUN_S = 60;
const MAX_RUN_S = 7 * 86_400;

/** How long a flex-start node runs, in seconds; null if the text is invalid. */
export function runTime({ runHours }: IWayDraft): number | null {
  const run_s = runHours.trim() === '' ? NaN : Math.round(Number(runHours) * 3600);
  return run_s >= MIN_RUN_S && run_s <= MAX_RUN_S ? run_s : null;
}

export function candidateKey({ zone, accelerator_type }: ICandidate): string {
  return `${zone}/${accelerator_type}`;
}

/**
 * Alternatives: the chosen type in all its zones, and other generations with as many chips.
 *
 * The chosen zone and type come first, then the same type elsewhere.
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

/** Only the chosen type is accepted, unless the user selects more. */
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

/** The options that are set and the provisioning model, without fields that are implied. */
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

/** The zones in which no price is known and no grant covers the node, so that the user must accept them first. */
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

/** The choice as it can be made again, without the name. */
export function choiceOf(spec: INodeSpec, draft: IWayDraft): ICandidate & { way: Way } {
  const { zone, accelerator_type, runtime_version } = spec;
  return {
    ...{ zone, accelerator_type, runtime_version },
    ...requestedTerms(spec),
    // always included: what it is merged with may have another model
    ...withTerms(termsOf(spec)),
    way: wayOf(spec, draft)
  };
}
