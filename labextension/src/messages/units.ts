/** Values as text: times, sizes, prices, provisioning models. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IAccelerator, INode, IPrice, IQuotaLimit, Provisioning } from '../api.generated';
import { formatUsd } from '../format';

/** The cost of nodes per hour; a lower bound if a price is unknown. */
export function rateOf(
  {
    usdPerHour,
    isPartial,
    isCovered
  }: {
    readonly usdPerHour: number;
    readonly isPartial: boolean;
    readonly isCovered: boolean;
  },
  trans: TranslationBundle
): string {
  if (isCovered) {
    return coveredByGrant(trans);
  }
  const usd = formatUsd(usdPerHour);
  return isPartial ? trans.__('at least %1 per hour', usd) : perHour(usd, trans);
}

export function perHour(usd: string, trans: TranslationBundle): string {
  return trans.__('%1 per hour', usd);
}

/** A number of chips or TensorCores. */
export function quotaAmount(
  count: number,
  unit: IQuotaLimit['unit'],
  trans: TranslationBundle
): string {
  return unit === 'chips'
    ? trans._n('%1 chip', '%1 chips', count)
    : trans._n('%1 TensorCore', '%1 TensorCores', count);
}

/** The size of a node: chips, workers, topology. */
export function formatSize(
  size: Pick<IAccelerator, 'chips' | 'workers' | 'topology'>,
  trans: TranslationBundle
): string {
  const parts = [
    trans._n('%1 chip', '%1 chips', size.chips),
    trans._n('%1 worker', '%1 workers', size.workers)
  ];
  if (size.topology) {
    parts.push(trans.__('topology %1', size.topology));
  }
  return parts.join(' · ');
}

/** The price of a node in one line, such as "$9.60 per hour". */
export function formatPrice(price: IPrice | null, trans: TranslationBundle): string {
  return price
    ? trans.__('%1 per hour', formatUsd(price.usd_per_hour))
    : trans.__('Price per hour unknown');
}

export function coveredByGrant(trans: TranslationBundle): string {
  return trans.__('covered by a grant');
}

/** What a node costs in one line; its list price is not billed while a grant covers it. */
export function nodePrice(
  { price, covered }: Pick<INode, 'price' | 'covered'>,
  trans: TranslationBundle
): string {
  if (!covered) {
    return formatPrice(price, trans);
  }
  return price
    ? trans.__('covered by a grant (list price: %1 per hour)', formatUsd(price.usd_per_hour))
    : coveredByGrant(trans);
}

/** The price of a node where space is scarce. */
export function shortPrice(price: IPrice | null, trans: TranslationBundle): string {
  return price ? trans.__('%1/h', formatUsd(price.usd_per_hour)) : trans.__('price unknown');
}

/** The source of a price, shown with it because a list price is not a bill. */
export function formatPriceSource(price: IPrice | null, trans: TranslationBundle): string {
  if (!price) {
    return trans.__('No list price for this type and zone.');
  }
  return price.as_of
    ? trans.__('List price as of %1. Source: %2', price.as_of, price.source)
    : trans.__('List price (date unknown). Source: %1', price.source);
}

/** The provisioning model of a node; empty for on-demand. */
export function provisioningName(
  { provisioning, spot }: { readonly provisioning?: Provisioning; readonly spot: boolean },
  trans: TranslationBundle
): string {
  const names: { readonly [terms in Provisioning]: string } = {
    'on-demand': '',
    spot: trans.__('spot'),
    preemptible: trans.__('preemptible'),
    reserved: trans.__('reserved'),
    'flex-start': trans.__('flex-start')
  };
  return names[provisioning ?? (spot ? 'spot' : 'on-demand')] ?? provisioning ?? '';
}

/** A duration: `42 s`, `8 min`, `1 h 20 min`, `3 d`. */
export function formatDuration(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) {
    return trans.__('%1 s', whole);
  }
  const minutes = Math.round(whole / 60);
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  if (minutes >= 48 * 60) {
    return trans.__('%1 d', Math.round(minutes / (24 * 60)));
  }
  const rest = minutes % 60;
  const hours = Math.floor(minutes / 60);
  return rest ? trans.__('%1 h %2 min', hours, rest) : trans.__('%1 h', hours);
}
