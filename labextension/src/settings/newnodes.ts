/** The user's defaults of new nodes: what the form starts with, and the auto-stop rules of nodes created here. */

import { CommandRegistry } from '@lumino/commands';
import { IAutostopRules } from '../api.generated';
import { keyOf } from '../fleet';
import { MoneyCommandIDs } from '../money/tokens';
import { INodeKey, INodeSpec, ITpuModel } from '../tokens';
import { ISettings, ITpuSettings } from './settings';

const MINUTE_S = 60;
const HOUR_S = 3600;

/** What the form starts with; a property is missing where the server's suggestion applies. */
export function formDefaults(settings: ISettings): Partial<INodeSpec> {
  const { zone, acceleratorType, provisioning } = settings;
  return {
    ...(zone ? { zone } : {}),
    ...(acceleratorType ? { accelerator_type: acceleratorType } : {}),
    ...(provisioning ? { provisioning, spot: provisioning === 'spot' } : {})
  };
}

/** The auto-stop rules that differ from the server's; null if none does. */
export function autostopDefaults({ idleMinutes, sessionHours }: ISettings): IAutostopRules | null {
  const rules = {
    ...(idleMinutes > 0 ? { idle_after_s: idleMinutes * MINUTE_S } : {}),
    ...(sessionHours > 0 ? { session_s: sessionHours * HOUR_S } : {})
  };
  return Object.keys(rules).length > 0 ? rules : null;
}

/** Sets the rules of each node that was created here, as soon as the cloud lists it. */
export class NewNodeRules {
  constructor(
    private readonly _nodes: Pick<ITpuModel, 'findNode'>,
    private readonly _settings: ITpuSettings,
    private readonly _commands: CommandRegistry,
    private readonly _onRefused: (error: unknown) => void
  ) {}

  /** Remember a node that is being created. */
  readonly onCreated = (_: unknown, key: INodeKey): void => {
    const rules = autostopDefaults(this._settings.values);
    if (rules) {
      this._waiting.set(keyOf(key), { key: { zone: key.zone, node_id: key.node_id }, rules });
    }
  };

  /** Compare with the last list of nodes. */
  readonly onChange = (): void => {
    for (const [word, { key, rules }] of this._waiting) {
      if (this._nodes.findNode(key)) {
        this._waiting.delete(word);
        this._commands
          .execute(MoneyCommandIDs.setAutostop, { ...key, ...rules })
          .catch(this._onRefused);
      }
    }
  };

  private readonly _waiting = new Map<string, { key: INodeKey; rules: IAutostopRules }>();
}
