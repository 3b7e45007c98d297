/** Notifications of failed creations while the panel is closed; the open panel has a card for each. */

import { Notification } from '@jupyterlab/apputils';
import { ErrorActions } from './erroractions';
import { failedCreations } from './fleet';
import { ITpuModel } from './tokens';

type Nodes = Pick<ITpuModel, 'list' | 'isWatched'>;

/**
 * Shows one notification for each creation that fails after the page was loaded, and withdraws it when the panel opens.
 */
export class CreationNotices {
  constructor(
    private readonly _nodes: Nodes,
    private readonly _actions: ErrorActions
  ) {}

  /** Compare the last list of nodes with the one before. */
  readonly onChange = (): void => {
    const { list, isWatched } = this._nodes;
    if (!list || list.as_of === null) {
      return;
    }
    const failed = failedCreations(list);
    const known = (this._known ??= new Set(failed.map(({ intent_id }) => intent_id)));
    for (const intent of failed) {
      if (!known.has(intent.intent_id) && !isWatched) {
        this._shown.set(intent.intent_id, this._actions.notify(intent.error));
      }
      known.add(intent.intent_id);
    }
    const left = new Set(isWatched ? [] : failed.map(({ intent_id }) => intent_id));
    for (const [intentId, id] of this._shown) {
      if (!left.has(intentId)) {
        this._shown.delete(intentId);
        Notification.dismiss(id);
      }
    }
  };

  /** Failed creations already seen; null before the first list, whose failures are older than the page. */
  private _known: Set<string> | null = null;
  /** Notifications by intent. */
  private readonly _shown = new Map<string, string>();
}
