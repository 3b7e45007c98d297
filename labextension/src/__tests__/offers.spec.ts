import { byGeneration, fitSpec, offerOf, suggestSpec } from '../create/offers';
import { offer, OFFERS } from './fixtures';

describe('a choice', () => {
  const suggested = suggestSpec(OFFERS, 'node-1');

  it('starts with what the server suggests', () => {
    expect(suggested).toEqual({ ...OFFERS.default, node_id: 'node-1', spot: false });
    expect(offerOf(OFFERS, suggested)?.usd_per_hour).toBe(9.6);
  });

  it('changes its type and runtime version with the zone where it must', () => {
    const moved = fitSpec(OFFERS, { ...suggested, zone: 'us-east1-d' });
    expect(moved.accelerator_type).toBe('v6e-8');
    expect(moved.runtime_version).toBe('v2-alpha-tpuv6e');
    expect(moved.node_id).toBe('node-1');
  });

  it('keeps what fits', () => {
    const wanted = { ...suggested, runtime_version: 'tpu-ubuntu2204-base' };
    expect(fitSpec(OFFERS, wanted)).toEqual(wanted);
  });

  it('is empty where nothing is offered', () => {
    const nothing = fitSpec({ ...OFFERS, zones: {} }, suggested);
    expect(nothing).toMatchObject({ zone: '', accelerator_type: '', runtime_version: '' });
  });
});

describe('generations', () => {
  it('group the types in the order given', () => {
    const groups = byGeneration([
      offer('v5litepod-1'),
      offer('v6e-8', { generation: 'v6e' }),
      offer('v5litepod-8')
    ]);
    expect(groups.map(([name, group]) => [name, group.length])).toEqual([
      ['v5e', 2],
      ['v6e', 1]
    ]);
  });
});
