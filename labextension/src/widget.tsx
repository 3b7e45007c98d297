/** The panel as a widget: small, because it is created when JupyterLab starts; its content is loaded later. */

import { TranslationBundle } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import React from 'react';
import { tpuIcon } from './icons';
import * as common from './messages/common';
import { noServer, tab } from './messages/surfaces';
import type { PanelView } from './panelview';
import { isTreePage } from './surfaces/notebooktree';
import { ITpuModel, PANEL_ID } from './tokens';

/** A model that requests what the panel needs only while the panel is visible. */
export interface IWatched {
  isWatched: boolean;
}

export class TpuPanel extends VDomRenderer<ITpuModel> {
  /**
   * @param _watched the models that the panel shows
   * @param _loadView loads what the panel shows; called with what renders it again
   */
  constructor(
    model: ITpuModel,
    private readonly _watched: readonly IWatched[],
    private readonly _loadView: (update: () => void) => Promise<PanelView>,
    private readonly _trans: TranslationBundle
  ) {
    super(model);
    this.id = PANEL_ID;
    this.addClass('jp-tpu-Panel');
    this.title.icon = tpuIcon;
    this.title.caption = common.product(_trans);
    if (isTreePage()) {
      this.title.label = tab(_trans);
    }
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', common.product(_trans));
  }

  dispose(): void {
    this._view?.dispose();
    super.dispose();
  }

  /** Load the content of the panel, unless it is loaded. */
  async load(): Promise<void> {
    this._loading ??= this._loadView(() => this.update());
    try {
      this._view = await this._loading;
      this.update();
    } catch {
      // the next update tries again, for example after a poll
      this._loading = null;
      this._isUnreachable = true;
    }
    if (this.isDisposed) {
      this._view?.dispose();
    }
  }

  protected render(): JSX.Element | null {
    if (this._view) {
      return this._view.render();
    }
    return this._isUnreachable ? <p className="jp-tpu-Muted">{noServer(this._trans)}</p> : null;
  }

  /** A hidden panel is rendered only once it is shown. */
  protected onUpdateRequest(msg: Message): void {
    if (this.isVisible) {
      void (this._view ?? this.load());
      super.onUpdateRequest(msg);
    }
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._watch(true);
    this.update();
  }

  protected onBeforeHide(msg: Message): void {
    super.onBeforeHide(msg);
    this._watch(false);
  }

  private _watch(isWatched: boolean): void {
    this._watched.forEach(model => (model.isWatched = isWatched));
  }

  private _view: PanelView | null = null;
  private _loading: Promise<PanelView> | null = null;
  private _isUnreachable = false;
}
