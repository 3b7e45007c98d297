/** Which choices of a node fit together; pure. */

import { IOffer, IOffers, Provisioning } from '../api.generated';
import { INodeSpec } from '../tokens';

/** The offer that matches a choice. */
export function offerOf(offers: IOffers, spec: INodeSpec): IOffer | undefined {
  return offersIn(offers, spec.zone).find(o => o.accelerator_type === spec.accelerator_type);
}

/** The provisioning model of a choice. */
export function termsOf({ provisioning, spot }: INodeSpec): Provisioning {
  return provisioning ?? (spot ? 'spot' : 'on-demand');
}

export function offersIn(offers: IOffers, zone: string): readonly IOffer[] {
  return offers.zones[zone] ?? [];
}

/** The server's default choice, with a name. */
export function suggestSpec(offers: IOffers, node_id: string): INodeSpec {
  return fitSpec(offers, { ...offers.default, node_id, spot: false });
}

/** The same choice, with whatever its zone and type do not offer replaced by what they do. */
export function fitSpec(offers: IOffers, wanted: INodeSpec): INodeSpec {
  const zone = pick(Object.keys(offers.zones), wanted.zone);
  const types = offersIn(offers, zone).map(offer => offer.accelerator_type);
  const accelerator_type = pick(types, wanted.accelerator_type);
  const offer = offerOf(offers, { ...wanted, zone, accelerator_type });
  const runtime_version = pick(offer?.runtime_versions ?? [], wanted.runtime_version);
  return { ...wanted, zone, accelerator_type, runtime_version };
}

function pick(choices: readonly string[], wanted: string): string {
  return choices.includes(wanted) ? wanted : (choices[0] ?? '');
}

/** Group offers by generation, in their order. */
export function byGeneration(offers: readonly IOffer[]): [string, IOffer[]][] {
  const groups = new Map<string, IOffer[]>();
  for (const offer of offers) {
    groups.set(offer.generation, [...(groups.get(offer.generation) ?? []), offer]);
  }
  return [...groups];
}
