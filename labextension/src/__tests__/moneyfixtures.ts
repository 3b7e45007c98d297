import {
  IBudget,
  ICleanupItem,
  IGrant,
  INodeAutostop,
  IQueued,
  IQuotaLimit,
  ISearch,
  ISpend
} from '../api.generated';
import { IPart } from '../money/tokens';
import { IProblem } from '../tokens';

export const NODE = 'projects/demo-project/locations/us-central1-a/nodes/my-node';

const SUM = { usd: 1.5, known_usd: 1.5, ready_s: 3600 };

export function spend(rest: Partial<ISpend> = {}): ISpend {
  return {
    as_of: null,
    currency: 'USD',
    usd_per_hour: 9.6,
    nodes: [],
    unpriced: [],
    is_complete: true,
    total: { usd: 40, known_usd: 40, ready_s: 36_000 },
    today: SUM,
    week: SUM,
    month: SUM,
    budgets: [],
    ...rest
  };
}

export function budget(rest: Partial<IBudget> = {}): IBudget {
  return {
    name: 'weekly',
    amount: 10,
    unit: 'usd',
    period: 'week',
    resets_on: 'monday',
    resets_at: '00:00',
    action: 'stop',
    used: 8.5,
    unwatched: 0,
    fraction: 0.85,
    level: '80',
    window_start: 0,
    window_end: null,
    runs_out_at: null,
    error: null,
    ...rest
  };
}

export function autostop(rest: Partial<INodeAutostop> = {}): INodeAutostop {
  return {
    name: NODE,
    zone: 'us-central1-a',
    node_id: 'my-node',
    idle_after_s: 3600,
    unattended_after_s: 7200,
    session_s: null,
    deadline_at: null,
    action: 'delete',
    verdict: 'idle',
    reason: 'nothing has executed for 18 min',
    sources: [
      { source: 'execution', state: 'quiet', age_s: 1080, detail: '' },
      { source: 'accelerator', state: 'unknown', age_s: null, detail: 'no metrics' },
      { source: 'human', state: 'active', age_s: 0, detail: '' }
    ],
    ends_at: 1000 + 42 * 60,
    ends_why: 'idle',
    is_warning: false,
    idle_s: 1080,
    idle_limit_s: 3600,
    reminder: null,
    kept_until: null,
    kept_while_busy: false,
    guard: { state: 'armed', detail: '' },
    ...rest
  };
}

export function item(rest: Partial<ICleanupItem> = {}): ICleanupItem {
  return {
    kind: 'node',
    name: NODE,
    node_id: 'my-node',
    zone: 'us-central1-a',
    state: 'READY',
    accelerator_type: '',
    usd_per_hour: 9.6,
    is_billed: true,
    holds_quota: true,
    is_leftover: false,
    is_ours: true,
    create_time: '2026-11-21T09:00:00Z',
    description: '',
    ...rest
  };
}

export function limit(rest: Partial<IQuotaLimit> = {}): IQuotaLimit {
  return {
    quota_id: 'TPUV5sLitepodPerProjectPerZoneForTPUAPI',
    label: 'v5e chips',
    unit: 'chips',
    scope: 'zone',
    location: 'us-central1-a',
    limit: 16,
    is_unlimited: false,
    used: 8,
    free: 8,
    users: [],
    ...rest
  };
}

export function grant(rest: Partial<IGrant> = {}): IGrant {
  return {
    name: 'trc',
    kind: 'trc',
    starts_on: '2026-11-01',
    ends_on: '2026-12-01',
    days_left: 9,
    is_over: false,
    rows: [
      {
        ...{ chips: 64, generation: 'v5e', spot: true, zone: 'us-central1-a', device: null },
        ...{ used: 8, free: 56 }
      }
    ],
    usd: null,
    usd_used: null,
    usd_left: null,
    error: null,
    ...rest
  };
}

export function search(rest: Partial<ISearch> = {}): ISearch {
  return {
    search_id: 's1',
    node_id: 'my-node',
    phase: 'trying',
    message: 'Trying us-east1-d',
    tries: [
      {
        zone: 'us-central1-a',
        accelerator_type: 'v5litepod-8',
        spot: true,
        provisioning: 'spot',
        outcome: 'stockout',
        message: 'No capacity.',
        raw: 'code: 8 There is no more capacity',
        at: 1000
      }
    ],
    node_name: null,
    created_at: 1000,
    ...rest
  };
}

export function queued(rest: Partial<IQueued> = {}): IQueued {
  return {
    name: 'projects/demo-project/locations/us-central1-a/queuedResources/my-node',
    queued_id: 'my-node',
    zone: 'us-central1-a',
    state: 'WAITING_FOR_RESOURCES',
    state_since: null,
    accelerator_type: 'v5litepod-8',
    spot: false,
    provisioning: 'on-demand',
    node_ids: ['my-node'],
    valid_until: null,
    error: null,
    holds_quota: true,
    is_leftover: false,
    ...rest
  };
}

/** A part that was just answered, at 1000 s by the server's clock. */
export function answered<T>(data: T, problem: IProblem | null = null): IPart<T> {
  return { dated: { data, server_s: 1000, received_ms: Date.now() }, problem };
}

export function unanswered(problem: IProblem): IPart<never> {
  return { dated: null, problem };
}
