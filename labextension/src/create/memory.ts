/** Keeps the last choice in JupyterLab's state and the profiles in its settings; both are only suggestions. */

import { INotebookTracker } from '@jupyterlab/notebook';
import { Contents } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { PartialJSONArray, ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { IOpenChoice, ITpuModel } from '../tokens';
import { ICreateMemory, INodeChoice, IProfile } from './tokens';

const LAST = 'jupyter-tpu:create';
const PROFILES = 'profiles';
/** The notebook that `jupyter tpu demo` writes into its folder. */
const EXAMPLE = 'digits.ipynb';

/** The number of nodes whose choices are kept, so that they can be recreated as they were. */
const MAX_NODES = 30;

/** The choice made last, and the choices for the most recent nodes, newest first. */
interface ILast {
  readonly choice: INodeChoice;
  readonly open: IOpenChoice | null;
  readonly nodes: readonly { readonly node_id: string; readonly choice: INodeChoice }[];
}

interface ISources {
  readonly state: IStateDB | null;
  readonly tracker: INotebookTracker | null;
  readonly contents: Pick<Contents.IManager, 'get'>;
  /** Whether the cloud is emulated; only then can there be an example notebook. */
  readonly isDemo: () => boolean;
  /** See {@link ICreateMemory.opensOn}. */
  readonly opensOn: ICreateMemory['opensOn'];
}

export class CreateMemory implements ICreateMemory {
  constructor(private readonly _sources: ISources) {}

  get changed(): ISignal<ICreateMemory, void> {
    return this._changed;
  }

  get lastChoice(): INodeChoice | null {
    return this._last?.choice ?? null;
  }

  get lastOpen(): IOpenChoice | null {
    return this._last?.open ?? null;
  }

  get profiles(): readonly IProfile[] {
    const saved = this._settings?.get(PROFILES).composite;
    return Array.isArray(saved) ? (saved as unknown[]).filter(isProfile) : [];
  }

  get notebook(): string | null {
    return this._sources.tracker?.currentWidget?.context.path ?? null;
  }

  get example(): string | null {
    return this._example;
  }

  /** Read the stored choice; called once, in the background. */
  async load(settings: Promise<ISettingRegistry.ISettings | null>): Promise<void> {
    const [last, own] = await Promise.all([
      this._sources.state?.fetch(LAST).catch(() => undefined),
      settings.catch(() => null)
    ]);
    // a choice made in the meantime is newer
    this._last ??= isLast(last) ? last : null;
    this._settings = own;
    own?.changed.connect(() => this._changed.emit());
    this._changed.emit();
  }

  remember(node_id: string, choice: INodeChoice, open: IOpenChoice | null): void {
    const others = (this._last?.nodes ?? []).filter(one => one.node_id !== node_id);
    const nodes = [{ node_id, choice }, ...others].slice(0, MAX_NODES);
    this._last = { choice, open: open ?? this.lastOpen, nodes };
    void this._sources.state?.save(LAST, asJSON(this._last)).catch(() => undefined);
    this._changed.emit();
  }

  choiceOf(node_id: string): INodeChoice | null {
    return this._last?.nodes.find(one => one.node_id === node_id)?.choice ?? null;
  }

  async saveProfile(profile: IProfile): Promise<void> {
    const others = this.profiles.filter(({ name }) => name !== profile.name);
    await this._setProfiles([...others, profile]);
  }

  async deleteProfile(name: string): Promise<void> {
    await this._setProfiles(this.profiles.filter(profile => profile.name !== name));
  }

  opensOn(node: Parameters<ICreateMemory['opensOn']>[0]): boolean {
    return this._sources.opensOn(node);
  }

  async findExample(): Promise<void> {
    const found = this._sources.isDemo() ? await this._exists(EXAMPLE) : false;
    const example = found ? EXAMPLE : null;
    if (example !== this._example) {
      this._example = example;
      this._changed.emit();
    }
  }

  private async _exists(path: string): Promise<boolean> {
    try {
      await this._sources.contents.get(path, { content: false });
      return true;
    } catch {
      return false;
    }
  }

  private async _setProfiles(profiles: readonly IProfile[]): Promise<void> {
    const byName = [...profiles].sort((left, right) => left.name.localeCompare(right.name));
    await this._settings?.set(PROFILES, byName as unknown as PartialJSONArray);
  }

  private readonly _changed = new Signal<this, void>(this);
  private _last: ILast | null = null;
  private _settings: ISettingRegistry.ISettings | null = null;
  private _example: string | null = null;
}

function asJSON(value: object): ReadonlyPartialJSONValue {
  return value as ReadonlyPartialJSONValue;
}

/** Whether a stored value is a profile: another version, or the user by hand, may have written it. */
function isProfile(value: unknown): value is IProfile {
  return isObject(value) && typeof value.name === 'string' && isChoice(value.choice);
}

function isLast(value: unknown): value is ILast {
  return (
    isObject(value) &&
    isChoice(value.choice) &&
    (value.open === null || isOpen(value.open)) &&
    Array.isArray(value.nodes) &&
    value.nodes.every((one: unknown) => isObject(one) && isChoice(one.choice))
  );
}

function isChoice(value: unknown): value is INodeChoice {
  const texts = ['zone', 'accelerator_type', 'runtime_version', 'way'];
  return isObject(value) && texts.every(name => typeof value[name] === 'string');
}

export function isOpen(value: unknown): value is IOpenChoice {
  return isObject(value) && typeof value.kind === 'string' && typeof value.runsAll === 'boolean';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Look for the example as soon as the server has reported its cloud, and again whenever the cloud changes. */
export function followExample(
  nodes: Pick<ITpuModel, 'status' | 'stateChanged'>,
  memory: Pick<ICreateMemory, 'findExample'>
): void {
  let endpoint: string | null = null;
  const look = (): void => {
    if (nodes.status && nodes.status.endpoint !== endpoint) {
      endpoint = nodes.status.endpoint;
      void memory.findExample();
    }
  };
  nodes.stateChanged.connect(look);
  look();
}
