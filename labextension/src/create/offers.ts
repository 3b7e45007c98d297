/** Which choices of a node fit together, and in which order they are listed; pure. */

import { IOffer, IOffers, Provisioning } from '../api.generated';
import { priceOf } from '../format';
import { INodeSpec } from '../tokens';

/** The offer that matches a choice. */
export function offerOf(
  offers: IOffers,
  spec: Pick<INodeSpec, 'zone' | 'accelerator_type'>
): IOffer | undefined {
  return offersIn(offers, spec.zone).find(o => o.accelerator_type === spec.accelerator_type);
}

/** The provisioning model of a choice. */
export function termsOf({
  provisioning,
  spot
}: Pick<INodeSpec, 'provisioning' | 'spot'>): Provisioning {
  return provisioning ?? (spot ? 'spot' : 'on-demand');
}

export function offersIn(offers: IOffers, zone: string): readonly IOffer[] {
  return offers.zones[zone] ?? [];
}

/** A place where a type is offered. */
export interface IPlace {
  readonly zone: string;
  readonly offer: IOffer;
}

/** The zones that offer a type, in the server's order. */
export function placesOf(offers: IOffers, accelerator_type: string): IPlace[] {
  return Object.keys(offers.zones).flatMap(zone => {
    const offer = offerOf(offers, { zone, accelerator_type });
    return offer ? [{ zone, offer }] : [];
  });
}

/** One row of the list of types: a type, and the place where its node would be created. */
export interface IChipsRow extends IPlace {
  /** The provisioning model that a grant covers there; null if there is none. */
  readonly covered: Provisioning | null;
  readonly usd_per_hour: number | null;
}

/**
 * Each type once: types free under a grant first, then those used last, then by price, with unknown prices at the end.
 */
export function chipsRows(offers: IOffers, spec: INodeSpec): IChipsRow[] {
  const types = new Set(Object.values(offers.zones).flatMap(list => list.map(typeOf)));
  const rows = [...types].map(type => rowOf(offers, spec, type));
  return rows.sort(
    (left, right) =>
      Number(right.covered !== null) - Number(left.covered !== null) ||
      lastUse(right, offers) - lastUse(left, offers) ||
      (left.usd_per_hour ?? Infinity) - (right.usd_per_hour ?? Infinity) ||
      left.offer.chips - right.offer.chips ||
      left.offer.accelerator_type.localeCompare(right.offer.accelerator_type)
  );
}

function typeOf(offer: IOffer): string {
  return offer.accelerator_type;
}

function rowOf(offers: IOffers, spec: INodeSpec, accelerator_type: string): IChipsRow {
  const place = bestPlace(offers, spec, accelerator_type);
  const terms = coveredTerms(place.offer, termsOf(spec));
  const price = priceOf(place.offer, terms ?? termsOf(spec));
  return { ...place, covered: terms, usd_per_hour: price?.usd_per_hour ?? null };
}

/** The chosen model if a grant covers it there, else another model that the grant covers. */
function coveredTerms({ covered }: IOffer, terms: Provisioning): Provisioning | null {
  return covered.includes(terms) ? terms : (covered[0] ?? null);
}

/** When a node of this type was last created, in any zone. */
function lastUse({ offer }: IPlace, offers: IOffers): number {
  const all = placesOf(offers, offer.accelerator_type);
  return Math.max(...all.map(place => place.offer.last_created_at ?? 0));
}

/**
 * The best place for a type: one that a grant covers, else the chosen zone, else the zone used last, else the cheapest.
 */
export function bestPlace(offers: IOffers, spec: INodeSpec, accelerator_type: string): IPlace {
  const terms = termsOf(spec);
  const rank = ({ zone, offer }: IPlace): number[] => [
    offer.covered.includes(terms) ? 0 : offer.covered.length > 0 ? 1 : 2,
    zone === spec.zone ? 0 : 1,
    -(offer.last_created_at ?? 0),
    priceOf(offer, terms)?.usd_per_hour ?? Infinity
  ];
  return placesOf(offers, accelerator_type).sort((left, right) =>
    compare(rank(left), rank(right))
  )[0];
}

function compare(left: readonly number[], right: readonly number[]): number {
  const at = left.findIndex((value, index) => value !== right[index]);
  return at < 0 ? 0 : left[at] < right[at] ? -1 : 1;
}

/**
 * The rows whose type, generation or size contains all words of a filter, exact sizes first. "8 chips" matches the
 * number of chips, which the names of some types do not state.
 */
export function matching(rows: readonly IChipsRow[], filter: string): IChipsRow[] {
  const [, rest, chips] = /^(.*?)(?:\b(\d+)\s+chips?)?\s*$/.exec(filter.toLowerCase()) ?? [];
  const words = (rest ?? '').split(/\s+/).filter(Boolean);
  const sizes = words.filter(word => /^\d+$/.test(word));
  const found = rows.filter(({ offer }) => {
    const text = `${offer.accelerator_type} ${offer.generation} ${offer.description}`.toLowerCase();
    const hasSize = chips === undefined || offer.chips === Number(chips);
    return hasSize && words.every(word => text.includes(word));
  });
  const isExact = ({ offer }: IChipsRow): boolean =>
    sizes.every(size => offer.accelerator_type.endsWith(`-${size}`));
  return [...found.filter(isExact), ...found.filter(row => !isExact(row))];
}

/** The choice after another type is selected, with the best zone and model for that type. */
export function withChips(offers: IOffers, spec: INodeSpec, row: IChipsRow): INodeSpec {
  const { accelerator_type } = row.offer;
  const terms = row.covered ? withTerms(row.covered) : {};
  return fitSpec(offers, { ...spec, ...terms, zone: row.zone, accelerator_type });
}

export function withTerms(provisioning: Provisioning): Pick<INodeSpec, 'provisioning' | 'spot'> {
  return { provisioning, spot: provisioning === 'spot' };
}

/** The server's default choice with a name; if a grant covers another choice, that one instead. */
export function suggestSpec(offers: IOffers, node_id: string): INodeSpec {
  const usual = fitSpec(offers, { ...offers.default, node_id, spot: false });
  const rows = chipsRows(offers, usual).filter(row => row.covered !== null);
  const best = rows.find(row => typeOf(row.offer) === usual.accelerator_type) ?? rows[0];
  return best ? withChips(offers, usual, best) : usual;
}

/** The same choice, with every value replaced that its zone and type do not offer. */
export function fitSpec(offers: IOffers, wanted: INodeSpec): INodeSpec {
  const zone = pick(Object.keys(offers.zones), wanted.zone);
  const types = offersIn(offers, zone).map(typeOf);
  const accelerator_type = pick(types, wanted.accelerator_type);
  const offer = offerOf(offers, { zone, accelerator_type });
  const runtime_version = pick(offer?.runtime_versions ?? [], wanted.runtime_version);
  return { ...wanted, zone, accelerator_type, runtime_version };
}

/** A choice with the user's defaults applied; if only a type is set, the zone becomes one that offers it. */
export function withDefaults(
  offers: IOffers,
  spec: INodeSpec,
  defaults: Partial<INodeSpec>
): INodeSpec {
  const wanted = { ...spec, ...defaults };
  const isMissing = !defaults.zone && !offerOf(offers, wanted);
  const isElsewhere = isMissing && placesOf(offers, wanted.accelerator_type).length > 0;
  return fitSpec(
    offers,
    isElsewhere
      ? { ...wanted, zone: bestPlace(offers, wanted, wanted.accelerator_type).zone }
      : wanted
  );
}

function pick(choices: readonly string[], wanted: string): string {
  return choices.includes(wanted) ? wanted : (choices[0] ?? '');
}
