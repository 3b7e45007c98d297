/**
 * The user's defaults for new nodes: the form's initial choice, and the auto-stop rules of nodes created in this page.
 */

import { CommandRegistry } from '@lumino/commands';
import { IAutostopRules } from '../api.generated';
import { MoneyCommandIDs } from '../money/tokens';
import { INodeKey, INodeSpec, ITpuModel } from '../tokens';
import { ISettings, ITpuSettings } from './settings';

const MINUTE_S = 60;
const HOUR_S = 3600;

/** The form's initial choice; a property is missing where the server's suggestion applies. */
export function formDefaults(settings: ISettings): Partial<INodeSpec> {
  const { zone, acceleratorType, provisioning } = settings;
  return {
    ...(zone ? { zone } : {}),
    ...(acceleratorType ? { accelerator_type: acceleratorType } : {}),
    ...(provisioning ? { provisioning, spot: provisioning === 'spot' } : {})
  };
}

/** The auto-stop rules that differ from the server's; null if none differs. */
export function autostopDefaults({ idleMinutes, sessionHours }: ISettings): IAutostopRules | null {
  const rules = {
    ...(idleMinutes > 0 ? { idle_after_s: idleMinutes * MINUTE_S } : {}),
    ...(sessionHours > 0 ? { session_s: sessionHours * HOUR_S } : {})
  };
  return Object.keys(rules).length > 0 ? rules : null;
}

/** Sets the rules of each node created in this page as soon as the cloud lists it. */
export class NewNodeRules {
  constructor(
    private readonly _nodes: Pick<ITpuModel, 'list'>,
    private readonly _settings: ITpuSettings,
    private readonly _commands: CommandRegistry,
    private readonly _onRefused: (error: unknown) => void
  ) {}

  /** Remember a node that is being created. */
  readonly onCreated = (_: unknown, { zone, node_id }: INodeKey): void => {
    this._add(node_id, zone);
  };

  /** Remember the node of a search or a queued resource, once the server has accepted it. */
  readonly onExecuted = (
    _: unknown,
    { id, args, result }: CommandRegistry.ICommandExecutedArgs
  ): void => {
    if (id === MoneyCommandIDs.search || id === MoneyCommandIDs.queue) {
      const { node_id, zone } = args.terms as unknown as { node_id: string; zone?: string };
      result.then(
        () => this._add(node_id, zone ?? null),
        () => undefined // the error is shown where the command was started
      );
    }
  };

  /** Compare with the last list of nodes. */
  readonly onChange = (): void => {
    for (const { zone, node_id } of this._nodes.list?.nodes ?? []) {
      const waiting = this._waiting.get(node_id);
      if (waiting && (waiting.zone ?? zone) === zone) {
        this._waiting.delete(node_id);
        this._commands
          .execute(MoneyCommandIDs.setAutostop, { zone, node_id, ...waiting.rules })
          .catch(this._onRefused);
      }
    }
  };

  /** @param zone null if a search finds it */
  private _add(node_id: string, zone: string | null): void {
    const rules = autostopDefaults(this._settings.values);
    if (rules) {
      this._waiting.set(node_id, { zone, rules });
      this.onChange();
    }
  }

  /** The rules that wait for a node, by the node's name. */
  private readonly _waiting = new Map<
    string,
    { readonly zone: string | null; readonly rules: IAutostopRules }
  >();
}
