import * as format from '../format';
import * as units from '../messages/units';
import { stateName } from '../messages/panel';
import { quotaUse } from '../messages/quota';
import { offer, trans, translations } from './fixtures';
import { limit } from './moneyfixtures';

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

  it('that this version does not know is called unknown in the language of the page', () => {
    const chinese = translations({ Unknown: '未知', Ready: '就绪' });
    expect(stateName('UNKNOWN(17)', chinese)).toBe('未知');
    expect(stateName('UNKNOWN', chinese)).toBe('未知');
    expect(stateName('READY', chinese)).toBe('就绪');
    expect(stateName('STATE_UNSPECIFIED', chinese)).toBe('STATE_UNSPECIFIED');
  });
});

describe('the use of a quota', () => {
  const chinese = translations({ '%1 chip': ['%1 个芯片', ''], '%1 of %2 in use': '%2 中已用 %1' });

  it.each([
    ['chips', '16 个芯片 中已用 8'],
    ['TensorCores', '16 TensorCores 中已用 8']
  ] as const)('in %s is in the language of the page', (unit, text) => {
    expect(quotaUse(limit({ unit }), chinese)).toBe(text);
  });
});
