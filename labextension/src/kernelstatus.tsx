/** How far the start of a notebook's kernel on a node has come, in the notebook's toolbar. */

import { ISessionContext } from '@jupyterlab/apputils';
import { Event } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';
import { concerns, isOver, percentOf } from './kernelstart';
import { IKernelEvent, KERNEL_SCHEMA } from './tokens';

export class KernelStatus extends ReactWidget {
  constructor(
    private readonly _session: ISessionContext,
    private readonly _events: Event.Stream,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-KernelStatus');
    this._events.connect(this._onEvent, this);
    this._session.statusChanged.connect(this._onStatus, this);
  }

  dispose(): void {
    this._events.disconnect(this._onEvent, this);
    this._session.statusChanged.disconnect(this._onStatus, this);
    super.dispose();
  }

  protected render(): JSX.Element | null {
    return this._start && <KernelStart start={this._start} trans={this._trans} />;
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id !== KERNEL_SCHEMA) {
      return;
    }
    const start = event as unknown as IKernelEvent;
    // a notebook whose kernel failed to start has none any more, but it still has what it was told of it
    if (start.kernel_id === this._start?.kernel_id || concerns(start, this._session)) {
      this._show(isOver(start) ? null : start);
    }
  }

  /** A kernel that answers has started, whatever was heard of it. */
  private _onStatus(_: ISessionContext, status: string): void {
    if (status === 'idle' || status === 'busy') {
      this._show(null);
    }
  }

  private _show(start: IKernelEvent | null): void {
    this._start = start;
    this.update();
  }

  private _start: IKernelEvent | null = null;
}

interface IProps {
  start: IKernelEvent;
  trans: TranslationBundle;
}

export function KernelStart({ start, trans }: IProps): JSX.Element {
  const percent = percentOf(start);
  const text = percent === null ? start.message : trans.__('%1 (%2 %)', start.message, percent);
  return (
    <span
      role="status"
      title={text}
      className={start.error_code ? 'jp-mod-failed' : 'jp-mod-working'}
    >
      {text}
    </span>
  );
}
