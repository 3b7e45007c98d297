/** The failure simulator as a widget: shows the model, turns clicks into commands. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { JSONObject } from '@lumino/coreutils';
import { Message } from '@lumino/messaging';
import React from 'react';
import { IOffers } from '../api.generated';
import * as messages from '../messages/simulator';
import { problemOf } from '../request';
import { SimulatorModel } from './model';
import { ISimulatorActions, SimulatorPage } from './page';
import { SimulatorCommandIDs } from './tokens';

export class Simulator extends VDomRenderer<SimulatorModel> {
  /**
   * @param offers the zones and generations to choose from
   */
  constructor(
    model: SimulatorModel,
    offers: Promise<IOffers>,
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super(model);
    this.addClass('jp-tpu-Switchboard');
    this.title.label = messages.title(this._trans);
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this.title.label);
    offers.then(
      known => {
        this._offers = known;
        this.update();
      },
      () => undefined // without the list, zones can be typed
    );
  }

  protected render(): JSX.Element {
    const { cloud, problem, refusal, isBusy } = this.model;
    return (
      <SimulatorPage
        state={{ cloud, problem, refusal, isBusy, offers: this._offers }}
        actions={this._actions}
        trans={this._trans}
      />
    );
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.model.isWatched = true;
  }

  protected onBeforeHide(msg: Message): void {
    super.onBeforeHide(msg);
    this.model.isWatched = false;
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.model.isWatched = this.isVisible;
  }

  protected onBeforeDetach(msg: Message): void {
    super.onBeforeDetach(msg);
    this.model.isWatched = false;
  }

  private _run(command: string, args: JSONObject = {}): void {
    this._commands
      .execute(command, args)
      .catch(error => Notification.error(problemOf(error).message, { autoClose: false }));
  }

  private _offers: IOffers | null = null;
  private readonly _actions: ISimulatorActions = {
    onRefresh: () => void this.model.refresh(),
    onDismiss: () => this.model.dismissRefusal(),
    onSetClock: change => this._run(SimulatorCommandIDs.setClock, { ...change }),
    onPreempt: nodes => this._run(SimulatorCommandIDs.preempt, { nodes: [...nodes] }),
    onMaintain: (node, in_s) => this._run(SimulatorCommandIDs.maintain, { node, in_s }),
    onFaultLink: ({ node, worker_id }, requests) =>
      this._run(SimulatorCommandIDs.faultLink, { node, worker_id, faults: [...requests] }),
    onFaultWorker: ({ node, worker_id }, request) =>
      this._run(SimulatorCommandIDs.faultWorker, { node, worker_id, ...request }),
    onSetCapacity: capacity => this._run(SimulatorCommandIDs.setCapacity, { ...capacity }),
    onSetQuota: (quota, limit) => this._run(SimulatorCommandIDs.setQuota, { ...quota, limit }),
    onSetProject: change => this._run(SimulatorCommandIDs.setProject, change),
    onAddFault: fault => this._run(SimulatorCommandIDs.addFault, fault),
    onRemoveFault: id => this._run(SimulatorCommandIDs.removeFault, { id }),
    onClearFaults: () => this._run(SimulatorCommandIDs.clearFaults),
    onReset: () => this._run(SimulatorCommandIDs.reset)
  };
}
