/** What the server half says of grants and credit, field by field. Importing this module does nothing. */

/** Chips of one generation in one zone that a grant covers. */
export interface IGrantRow {
  readonly chips: number;
  readonly generation: string;
  readonly spot: boolean;
  readonly zone: string;
  /** The only type it is for, such as `v3-8`; null where the generation is all. */
  readonly device?: string | null;
}

/** A row and how much of it is used; null where that cannot be counted. */
export interface IGrantRowUse extends IGrantRow {
  readonly used: number | null;
  readonly free: number | null;
}

export interface IGrantTerms {
  readonly kind: 'trc' | 'credit';
  /** A day, such as `2026-11-22`. */
  readonly starts_on: string;
  readonly days?: number;
  readonly rows?: readonly IGrantRow[];
  readonly usd?: number;
}

export interface IGrant {
  readonly name: string;
  readonly kind: 'trc' | 'credit' | null;
  readonly starts_on: string | null;
  readonly ends_on: string | null;
  readonly days_left: number | null;
  readonly is_over: boolean | null;
  readonly rows: readonly IGrantRowUse[];
  readonly usd: number | null;
  readonly usd_used: number | null;
  readonly usd_left: number | null;
  readonly error: string | null;
}

/** What was read in a pasted mail; nothing is assumed that it does not say. */
export interface IParsedMail {
  readonly rows: readonly IGrantRow[];
  readonly days: number | null;
  readonly problems: readonly unknown[];
  readonly notes?: readonly unknown[];
}

export interface ICoverage {
  readonly covered: boolean;
  readonly grant: string | null;
  readonly usd_per_hour: number | null;
  readonly text: string;
  readonly not_covered: readonly unknown[];
}
