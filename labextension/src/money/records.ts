/**
 * What the server half says of money, field by field (server/rest-api.yml). Importing this module does nothing.
 *
 * Amounts are US dollars, moments seconds since the epoch by the server's clock, spans seconds. What is not known is null.
 */

import { INodeKey, INodeSpec, Provisioning } from '../tokens';
import { IGrant } from './grantrecords';

/** What something has cost, and for how long it was ready. */
export interface ISum {
  readonly usd: number | null;
  /** What is known of it, where some price is not. */
  readonly known_usd?: number;
  readonly ready_s: number;
}

export type BudgetUnit = 'usd' | 'hours';
export type BudgetPeriod = 'day' | 'week' | 'month' | 'total';
export type BudgetAction = 'stop' | 'warn';

/** What the user sets of a budget. */
export interface IBudgetTerms {
  readonly amount: number;
  readonly unit: BudgetUnit;
  readonly period: BudgetPeriod;
  readonly resets_on?: string | null;
  readonly resets_at?: string;
  readonly action: BudgetAction;
}

/**
 * What stands for budgets that a damaged journal may have lost. Removing it says that those which there are are right.
 */
export const LOST_BUDGETS = 'lost-budgets';

/** A budget; one that cannot be read has nothing but an error, and counts as used up. */
export interface IBudget {
  readonly name: string;
  readonly amount: number | null;
  readonly unit: BudgetUnit | null;
  readonly period: BudgetPeriod | null;
  readonly resets_on: string | null;
  readonly resets_at: string | null;
  readonly action: BudgetAction | null;
  readonly used: number | null;
  /** How much of it is of time in which nobody looked, so that it may be less. */
  readonly unwatched: number | null;
  readonly fraction: number | null;
  readonly level: 'ok' | '50' | '80' | '100';
  readonly window_start: number | null;
  readonly window_end: number | null;
  readonly runs_out_at: number | null;
  readonly error: string | null;
}

/** What one node has cost. */
export interface INodeCost {
  readonly name: string;
  readonly usd_per_hour: number | null;
  readonly is_open: boolean;
}

export interface ISpend {
  readonly as_of: number | null;
  /** Null where the price of something that runs is not known. */
  readonly usd_per_hour: number | null;
  readonly nodes: readonly INodeCost[];
  /** Accelerator types, of now or before, whose price is not known. */
  readonly unpriced: readonly string[];
  readonly is_complete: boolean;
  readonly total: ISum;
  readonly today: ISum;
  readonly week: ISum;
  readonly month: ISum;
  readonly budgets: readonly IBudget[];
}

/** One of the signs of use; CPU time only where the use of the chips can't be measured. */
export interface IActivitySource {
  readonly source: 'execution' | 'accelerator' | 'human' | 'output' | 'connection' | 'cpu';
  readonly state: 'active' | 'quiet' | 'unknown';
  readonly age_s: number | null;
  readonly detail: string;
}

/** When a node ends, and why. */
export interface IBrake extends INodeKey {
  readonly name: string;
  readonly idle_after_s: number | null;
  /** After so long a running cell with idle chips, no output and nobody connected counts as idle. */
  readonly unattended_after_s: number | null;
  readonly session_s: number | null;
  readonly deadline_at: number | null;
  readonly action: 'stop' | 'delete';
  readonly verdict: 'busy' | 'idle' | 'unknown';
  readonly reason: string;
  readonly sources: readonly IActivitySource[];
  readonly ends_at: number | null;
  readonly ends_why: 'idle' | 'session' | 'deadline' | 'budget' | null;
  readonly is_warning: boolean;
  /** How long there was no activity, where the idle rule counts it now. */
  readonly idle_s: number | null;
  /** The node was billed for a day or more without a human act. */
  readonly reminder: { readonly days: number; readonly text: string } | null;
  readonly kept_until: number | null;
  readonly kept_while_busy: boolean;
  /** Whether the agent on the node can end it while no server runs. */
  readonly guard: {
    readonly state: 'armed' | 'off' | 'cannot' | 'unknown';
    readonly detail: string;
  };
}

export interface IBrakes {
  readonly as_of: number | null;
  readonly nodes: readonly IBrake[];
}

/** What the user sets of a node's brakes. */
export interface IBrakeTerms {
  readonly idle_after_s?: number | null;
  readonly unattended_after_s?: number | null;
  readonly session_s?: number | null;
  readonly action?: 'stop' | 'delete';
}

/** What is asked of the brakes of a node: a time more, as long as a cell runs, or nothing more. */
export interface IKeep {
  readonly for_s?: number;
  readonly until?: number;
  readonly while_busy?: true;
}

export interface IQuotaUser {
  readonly name: string;
  readonly kind: 'node' | 'queued_resource';
  readonly state: string;
  readonly amount: number;
  readonly is_husk: boolean;
}

export interface IQuotaLimit {
  readonly quota_id: string;
  readonly label: string;
  readonly unit: string;
  readonly scope: 'zone' | 'region';
  readonly location: string;
  readonly limit: number | null;
  readonly is_unlimited?: boolean;
  readonly used: number;
  readonly free: number | null;
  readonly users: readonly IQuotaUser[];
}

/** Lists that may be partial say so, with the zones that did not answer. */
export interface ICompleteness {
  readonly as_of: number | null;
  readonly is_complete: boolean;
  readonly unreachable: readonly string[];
}

export interface IQuota extends ICompleteness {
  readonly error: unknown;
  /** What could not be counted, in sentences or names. */
  readonly uncounted?: readonly unknown[];
  readonly limits: readonly IQuotaLimit[];
}

/** What a request would leave of its quotas. */
export interface IQuotasAfter {
  readonly error?: unknown;
  readonly rows: readonly IQuotaAfter[];
}

export interface IQuotaAfter {
  readonly quota_id: string;
  readonly label: string;
  readonly location: string;
  readonly unit: string;
  readonly limit: number | null;
  readonly is_unlimited?: boolean;
  readonly used: number;
  readonly asked: number;
  readonly after: number | null;
  readonly fits: boolean | null;
}

/** Something that costs or holds quota. */
export interface ISweepItem {
  readonly kind: 'node' | 'queued_resource';
  readonly name: string;
  readonly node_id: string;
  readonly zone: string;
  readonly state: string;
  readonly accelerator_type?: string;
  readonly usd_per_hour: number | null;
  readonly is_billed: boolean;
  readonly holds_quota: boolean;
  readonly is_husk: boolean;
  readonly is_ours: boolean;
  readonly create_time: string;
  readonly description: string;
}

export interface ISweep extends ICompleteness {
  readonly error?: unknown;
  readonly items: readonly ISweepItem[];
}

export interface ISweepResults {
  readonly results: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly error: unknown;
  }[];
}

/** One place and type the user would accept. */
export type ICandidate = Omit<INodeSpec, 'node_id'>;

export interface ISearchTerms {
  readonly node_id: string;
  readonly candidates: readonly ICandidate[];
  readonly queue_minutes?: number;
  readonly accept_unknown_price?: boolean;
}

export interface ITry {
  readonly zone: string;
  readonly accelerator_type: string;
  readonly spot: boolean;
  readonly provisioning?: Provisioning;
  readonly outcome: string;
  readonly message: string;
  readonly raw: string;
  readonly at: number | null;
}

export interface ISearch {
  readonly search_id: string;
  readonly node_id: string;
  readonly phase: 'trying' | 'found' | 'failed' | 'cancelled';
  readonly message: string;
  readonly tries: readonly ITry[];
  readonly node_name: string | null;
  readonly created_at: number;
}

export interface IQueueTerms extends INodeSpec {
  readonly valid_for_s?: number;
  /** Flex-start: the cloud itself deletes the node so long after it became READY. */
  readonly run_for_s?: number;
  /** Of a reserved node: where its chips come from; any reservation that fits, where none is named. */
  readonly reservation?: string;
}

export interface IQueued {
  readonly name: string;
  readonly queued_id: string;
  readonly zone: string;
  readonly state: string;
  readonly state_since: number | null;
  readonly accelerator_type: string;
  readonly spot: boolean;
  readonly provisioning?: Provisioning;
  readonly node_ids: readonly string[];
  readonly valid_until: number | null;
  readonly error: unknown;
  readonly holds_quota: boolean;
  readonly is_husk: boolean;
}

export interface IQueue extends ICompleteness {
  readonly items: readonly IQueued[];
}

/** The user's standing choice for a node that is taken back. */
export interface IRecovery {
  readonly node_name: string;
  readonly is_on: boolean;
  readonly attempts: number;
  readonly max_attempts: number;
  readonly max_usd: number | null;
  readonly state: string;
  readonly message: string;
}

export interface IAuditEntry {
  readonly at: number;
  readonly action: string;
  readonly subject: string;
  readonly reason: string;
  /** More of it, by name. */
  readonly detail: { readonly [name: string]: unknown };
}

/** What each part of the faces is told by the server, by the name of the part. */
export interface IAnswers {
  readonly spend: ISpend;
  readonly brakes: IBrakes;
  readonly recovery: { readonly choices: readonly IRecovery[] };
  readonly searches: { readonly searches: readonly ISearch[] };
  readonly grants: { readonly grants: readonly IGrant[] };
  readonly quota: IQuota;
  readonly queue: IQueue;
  readonly sweep: ISweep;
  readonly audit: { readonly entries: readonly IAuditEntry[] };
}

export type Part = keyof IAnswers;
