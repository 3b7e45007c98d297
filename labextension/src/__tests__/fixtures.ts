import { Gettext, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IError, IIntent, INode, IOffer, IOffers } from '../api.generated';
import { IDatedList } from '../tokens';

export const trans = nullTranslator.load('jupyter_tpu');

/** A bundle in Chinese with these translations, as JupyterLab loads it; that of a counted noun is a list. */
export function translations(texts: {
  readonly [english: string]: string | readonly string[];
}): TranslationBundle {
  const bundle = new Gettext({ domain: 'jupyter_tpu', locale: 'zh-CN' });
  const head = { language: 'zh-CN', pluralForms: 'nplurals=1; plural=0;' };
  const lists = Object.entries(texts).map(([english, chinese]) => [
    english,
    typeof chinese === 'string' ? [chinese] : chinese
  ]);
  bundle.loadJSON({ '': head, ...Object.fromEntries(lists) } as never, 'jupyter_tpu');
  return bundle;
}

export const STOCKOUT: IError = {
  code: 'out_of_capacity',
  status: 409,
  message: 'us-central1-a has no free v5litepod-8 now.',
  exists: 'Nothing was created.',
  hint: 'Try another zone.',
  raw: 'code: 8 There is no more capacity',
  templates: { message: '{zone} has no free {accelerator_type} now.' },
  arguments: { zone: 'us-central1-a', accelerator_type: 'v5litepod-8' },
  actions: []
};

export function node(node_id: string, rest: Partial<INode> = {}): INode {
  return {
    name: `projects/demo-project/locations/us-central1-a/nodes/${node_id}`,
    project: 'demo-project',
    zone: 'us-central1-a',
    node_id,
    state: 'READY',
    health: 'HEALTHY',
    health_description: '',
    accelerator_type: 'v5litepod-8',
    accelerator: null,
    runtime_version: 'v2-alpha-tpuv5-lite',
    spot: false,
    provisioning: rest.spot ? 'spot' : 'on-demand',
    create_time: '2026-11-21T09:00:00Z',
    workers: [],
    managed: true,
    billing: true,
    price: { usd_per_hour: 9.6, as_of: '2025-06-01', source: 'the price page' },
    cost_usd: 0.5,
    kernelspec: `tpu-${node_id}-us-central1-a`,
    description: '',
    ...rest
  };
}

export function intent(node_id: string, rest: Partial<IIntent> = {}): IIntent {
  return {
    intent_id: `intent-${node_id}`,
    verb: 'create',
    node_name: `projects/demo-project/locations/us-central1-a/nodes/${node_id}`,
    zone: 'us-central1-a',
    node_id,
    phase: 'provisioning',
    message: '',
    error: null,
    settled: false,
    created_at: 0,
    updated_at: 0,
    usual_s: null,
    ...rest
  };
}

export function list(rest: Partial<IDatedList> = {}): IDatedList {
  return {
    as_of: 1000,
    clock_ahead_s: 0,
    nodes: [],
    unreachable: [],
    notices: [],
    intents: [],
    error: null,
    age_s: 0,
    received_ms: Date.now(),
    ...rest
  };
}

export function offer(accelerator_type: string, rest: Partial<IOffer> = {}): IOffer {
  return {
    accelerator_type,
    generation: 'v5e',
    chips: 8,
    workers: 1,
    topology: '2x4',
    description: 'TPU v5e',
    usd_per_hour: 9.6,
    usd_per_hour_spot: null,
    usd_per_hour_flex_start: null,
    price_as_of: '2025-06-01',
    price_source: 'the price page',
    hbm_gib: 128,
    runtime_versions: ['v2-alpha-tpuv5-lite', 'tpu-ubuntu2204-base'],
    covered: [],
    created: 0,
    out_of_capacity: 0,
    last_created_at: null,
    ...rest
  };
}

export const OFFERS: IOffers = {
  zones: {
    'us-central1-a': [offer('v5litepod-1', { usd_per_hour: 1.2 }), offer('v5litepod-8')],
    'us-east1-d': [
      offer('v6e-8', {
        generation: 'v6e',
        usd_per_hour: null,
        runtime_versions: ['v2-alpha-tpuv6e']
      })
    ]
  },
  default: {
    zone: 'us-central1-a',
    accelerator_type: 'v5litepod-8',
    runtime_version: 'v2-alpha-tpuv5-lite'
  }
};
