/** What the server half tells of a kernel that was lost with its node, field by field (server/rest-api.yml); pure. */

export type LostState = 'ok' | 'error' | 'cut' | 'queued';

/** A run of a cell, in the order asked. */
export interface ILostRun {
  readonly msg_id: string;
  /** Null for what was no cell. */
  readonly cell_id: string | null;
  readonly code: string;
  /** False where `code` is only the beginning. */
  readonly is_whole: boolean;
  /** Cut: it ran when the node went; queued: it had not begun. */
  readonly state: LostState;
  readonly outputs: number;
  readonly order: number;
}

export interface IReplay {
  readonly kernel_id: string;
  /** Whether the node of the kernel is reached now. */
  readonly is_back: boolean;
  /** Unix seconds; null when nothing was lost. */
  readonly lost_at: number | null;
  readonly reason: string;
  readonly cells: readonly ILostRun[];
}
