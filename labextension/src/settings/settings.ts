/** The user's settings of the extension, from `schema/settings.json`. */

import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

/** The properties of the schema, under the same names. */
export interface ISettings {
  readonly zone: string;
  readonly acceleratorType: string;
  readonly provisioning: '' | 'on-demand' | 'spot';
  /** 0 = the server's default. */
  readonly idleMinutes: number;
  /** 0 = no limit. */
  readonly sessionHours: number;
  /** 0 = no warning. */
  readonly warnMinutes: number;
  readonly notifyReady: boolean;
  readonly notifyEnd: boolean;
  readonly refreshSeconds: number;
  /** Whether each section is shown; missing sections are. */
  readonly sections: { readonly [section: string]: boolean };
}

/** The settings without a settings registry: the defaults of the schema. */
export const DEFAULT_SETTINGS: ISettings = {
  zone: '',
  acceleratorType: '',
  provisioning: '',
  idleMinutes: 0,
  sessionHours: 0,
  warnMinutes: 10,
  notifyReady: true,
  notifyEnd: true,
  refreshSeconds: 15,
  sections: {}
};

export interface ITpuSettings {
  readonly values: ISettings;
  readonly changed: ISignal<ITpuSettings, void>;
}

export const ITpuSettings = new Token<ITpuSettings>(
  'jupyter-tpu:ITpuSettings',
  "The user's settings of the extension."
);

export class TpuSettings implements ITpuSettings {
  get values(): ISettings {
    return this._values;
  }

  get changed(): ISignal<ITpuSettings, void> {
    return this._changed;
  }

  /** Follow the settings of a plugin; the defaults stay if they can't be loaded. */
  async follow(registry: ISettingRegistry, plugin: string): Promise<void> {
    const loaded = await registry.load(plugin).catch(() => null);
    const apply = (): void => {
      this._values = { ...DEFAULT_SETTINGS, ...(loaded?.composite as Partial<ISettings>) };
      this._changed.emit();
    };
    if (loaded) {
      loaded.changed.connect(apply);
      apply();
    }
  }

  private _values = DEFAULT_SETTINGS;
  private readonly _changed = new Signal<ITpuSettings, void>(this);
}
