import * as format from '../format';
import * as units from '../messages/units';
import { offer, trans } from './fixtures';

describe('dollars', () => {
  it.each([
    [9.6, '$9.60'],
    [1234.5, '$1,234.50'],
    [0, '$0.00'],
    [0.004, '<$0.01']
  ])('show %d as %s', (usd, text) => {
    expect(format.formatUsd(usd)).toBe(text);
  });
});

describe('a price', () => {
  it('is told with its day and source', () => {
    const price = format.priceOf(offer('v5litepod-8'), 'on-demand');
    expect(units.formatPrice(price, trans)).toBe('$9.60 per hour');
    expect(units.formatPriceSource(price, trans)).toContain('2025-06-01');
    expect(units.formatPriceSource(price, trans)).toContain('the price page');
  });

  it('that nobody knows is called unknown, not free', () => {
    const price = format.priceOf(offer('v5litepod-8'), 'spot');
    expect(price).toBeNull();
    expect(units.formatPrice(price, trans)).toBe('Price per hour unknown');
  });
});

describe('the price of other terms', () => {
  const known = offer('v6e-8', { usd_per_hour_spot: 4, usd_per_hour_flex_start: 10.8 });

  it.each([
    ['preemptible', 4],
    ['flex-start', 10.8],
    ['reserved', undefined]
  ] as const)('%s is their own', (terms, usd) => {
    expect(format.priceOf(known, terms)?.usd_per_hour).toBe(usd);
  });

  it('is unknown where an older server does not tell it', () => {
    expect(format.priceOf(offer('v6e-8'), 'flex-start')).toBeNull();
  });
});

describe('a state', () => {
  it.each([
    ['READY', 'ready'],
    ['CREATING', 'working'],
    ['STOPPED', 'stopped'],
    ['PREEMPTED', 'lost'],
    ['UNKNOWN(17)', 'unknown'],
    ['constructor', 'unknown']
  ])('%s is %s', (state, kind) => {
    expect(format.stateKind(state)).toBe(kind);
  });
});
