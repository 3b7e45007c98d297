import {
  chipsRows,
  fitSpec,
  IChipsRow,
  matching,
  offerOf,
  suggestSpec,
  withChips
} from '../create/offers';
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

describe('the list of chips', () => {
  const covered = { covered: ['spot' as const] };
  const offers = {
    ...OFFERS,
    zones: {
      'us-central1-a': [
        offer('v5litepod-8'),
        offer('v5litepod-1', { chips: 1, usd_per_hour: 1.2 }),
        offer('v9-1', { generation: 'v9', usd_per_hour: null })
      ],
      'us-east1-d': [
        offer('v5litepod-8'),
        offer('v6e-8', { generation: 'v6e', usd_per_hour: 21.6, ...covered }),
        offer('v4-8', { generation: 'v4', usd_per_hour: 12.9, last_created_at: 1000 })
      ]
    }
  };
  const spec = { ...suggestSpec(OFFERS, 'node-1') };
  const names = (rows: readonly IChipsRow[]): string[] =>
    rows.map(row => row.offer.accelerator_type);

  it('has what a grant covers first, then what was used last, then what is cheap', () => {
    expect(names(chipsRows(offers, spec))).toEqual([
      ...['v6e-8', 'v4-8', 'v5litepod-1', 'v5litepod-8'],
      'v9-1' // its price is unknown
    ]);
  });

  it('is searched by type, generation and size', () => {
    const rows = chipsRows(offers, spec);
    expect(names(matching(rows, ' V5LITE 8'))).toEqual(['v5litepod-8']);
    expect(names(matching(rows, 'v6e'))).toEqual(['v6e-8']);
    expect(matching(rows, 'v6e (')).toEqual([]);
  });

  it('is searched by the number of chips, and shows a size before those that contain it', () => {
    const sized = (type: string, chips: number): IChipsRow => ({
      ...{ zone: 'z', covered: null, usd_per_hour: null },
      offer: offer(type, { chips, description: `TPU v5e, ${chips} chips` })
    });
    const rows = [sized('v5litepod-128', 128), sized('v5p-8', 4), sized('v5litepod-8', 8)];
    const all = [...rows, sized('v5p-16', 8)];
    expect(names(matching(all, '8 chips'))).toEqual(['v5litepod-8', 'v5p-16']);
    expect(names(matching(all, 'v5p 8 Chips'))).toEqual(['v5p-16']);
    expect(names(matching(all, '1 chip'))).toEqual([]);
    expect(names(matching(rows, 'v5e 8'))).toEqual(['v5p-8', 'v5litepod-8', 'v5litepod-128']);
    expect(names(matching(rows, 'chips'))).toHaveLength(3);
  });

  it('chooses with a type the zone and the terms that a grant covers', () => {
    const [free] = chipsRows(offers, spec);
    expect(withChips(offers, spec, free)).toMatchObject({
      ...{ zone: 'us-east1-d', accelerator_type: 'v6e-8', provisioning: 'spot', spot: true }
    });
  });

  it('keeps the zone and the terms where nothing is free', () => {
    const row = chipsRows(offers, spec).find(one => one.offer.accelerator_type === 'v5litepod-1');
    expect(withChips(offers, spec, row as IChipsRow)).toMatchObject({
      ...{ zone: 'us-central1-a', accelerator_type: 'v5litepod-1', spot: false }
    });
  });

  it('starts with what a grant covers, unless it covers the usual type too', () => {
    expect(suggestSpec(offers, 'n').accelerator_type).toBe('v6e-8');
    const both = { ...offers.zones, 'us-east1-d': [offer('v5litepod-8', covered)] };
    expect(suggestSpec({ ...offers, zones: both }, 'n')).toMatchObject({
      ...{ accelerator_type: 'v5litepod-8', zone: 'us-east1-d', spot: true }
    });
  });
});
