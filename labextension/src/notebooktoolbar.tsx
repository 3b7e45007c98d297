/** The start and the connection of a notebook's kernel on a node, in the notebook's toolbar. */

import { ISessionContext } from '@jupyterlab/apputils';
import { Event, Kernel } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';
import { ILink } from './api.generated';
import { describe, IConnection } from './connectionstate';
import { isAbout, isOver, percentOf } from './kernelstart';
import * as messages from './messages/notebook';
import { mayRunOnNode } from './nodekernel';
import {
  IKernelEvent,
  ILinkEvent,
  KERNEL_ENDED,
  KERNEL_NOT_STARTED,
  KERNEL_SCHEMA,
  LINK_SCHEMA
} from './tokens';

export class KernelStatus extends ReactWidget {
  /**
   * @param fetchLink requests the current connection: events report only changes
   */
  constructor(
    private readonly _session: ISessionContext,
    private readonly _events: Event.Stream,
    private readonly _fetchLink: (kernelId: string) => Promise<ILink>,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-KernelStatus');
    this._events.connect(this._onEvent, this);
    this._session.statusChanged.connect(this._onStatus, this);
    this._session.connectionStatusChanged.connect(this._onConnection, this);
    this._session.kernelChanged.connect(this._onKernel, this);
  }

  dispose(): void {
    this._events.disconnect(this._onEvent, this);
    this._session.statusChanged.disconnect(this._onStatus, this);
    this._session.connectionStatusChanged.disconnect(this._onConnection, this);
    this._session.kernelChanged.disconnect(this._onKernel, this);
    super.dispose();
  }

  protected render(): JSX.Element | null {
    return this._start ? (
      <KernelStart start={this._start} trans={this._trans} />
    ) : (
      <Connection connection={this._connection} trans={this._trans} />
    );
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id === KERNEL_SCHEMA) {
      this._onStart(event as unknown as IKernelEvent);
    } else if (event.schema_id === LINK_SCHEMA) {
      this._onLink(event as unknown as ILinkEvent);
    }
  }

  /** Whether an event concerns this notebook's kernel; after a failed start the notebook has no kernel any more. */
  concerns(start: IKernelEvent): boolean {
    return start.kernel_id === this._start?.kernel_id || isAbout(start, this._session);
  }

  private _onStart(start: IKernelEvent): void {
    if (this.concerns(start)) {
      this._show(isOver(start) ? null : start);
    }
  }

  private _onLink(link: ILinkEvent): void {
    if (link.kernel_id === this._session.session?.kernel?.id) {
      this._version += 1;
      this._setConnection({ link });
    }
  }

  /** Request the connection: a new or reconnected page has missed its events. */
  private async _refreshLink(): Promise<void> {
    const kernel = this._session.session?.kernel;
    if (!kernel || !this._isOnNode) {
      return;
    }
    const turn = ++this._version;
    try {
      const link = await this._fetchLink(kernel.id);
      if (turn === this._version && !this.isDisposed) {
        this._setConnection({ link });
      }
    } catch {
      // the kernel runs elsewhere, or has not started yet: there is nothing to show
    }
  }

  /** A kernel that responds has started, whatever the events said. */
  private _onStatus(_: ISessionContext, status: string): void {
    if (status === 'idle' || status === 'busy') {
      this._show(null);
    } else if (status === 'dead') {
      this._setConnection({ offlineSince_ms: null });
    }
  }

  private _onConnection(_: ISessionContext, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      this._setConnection({ offlineSince_ms: null });
      void this._refreshLink();
    } else if (this._connection.offlineSince_ms === null && this._isOnNode && !this._isDead) {
      this._setConnection({ offlineSince_ms: Date.now() });
    }
  }

  private _onKernel(): void {
    this._setConnection({ link: null, offlineSince_ms: null });
    void this._refreshLink();
  }

  private get _isOnNode(): boolean {
    const name = this._session.session?.kernel?.name;
    return name !== undefined && mayRunOnNode(name, this._session.specsManager.specs);
  }

  /** Whether the kernel is dead: JupyterLab then closes the connection itself, although the server is reachable. */
  private get _isDead(): boolean {
    const kernel = this._session.session?.kernel;
    return kernel?.status === 'dead' || kernel?.isDisposed === true;
  }

  private _setConnection(change: Partial<IConnection>): void {
    this._connection = { ...this._connection, ...change };
    this.update();
  }

  private _show(start: IKernelEvent | null): void {
    this._start = start;
    this.update();
  }

  private _start: IKernelEvent | null = null;
  /** Counts changes of the connection: a response older than an event is dropped. */
  private _version = 0;
  private _connection: IConnection = { link: null, offlineSince_ms: null };
}

interface IProps {
  start: IKernelEvent;
  trans: TranslationBundle;
}

export function KernelStart({ start, trans }: IProps): JSX.Element {
  const percent = percentOf(start);
  const text = percent === null ? start.message : messages.progress(start.message, percent, trans);
  return (
    <span role="status" title={text} className={classOf(start)}>
      {start.phase === KERNEL_NOT_STARTED ? messages.notStarted(trans) : text}
    </span>
  );
}

/** The style of a start's line. A kernel that a user ended, for example by *Release*, did not fail. */
function classOf({ error_code, phase }: IKernelEvent): string {
  return error_code ? 'jp-mod-failed' : phase === KERNEL_ENDED ? 'jp-mod-cut' : 'jp-mod-working';
}

interface IConnectionProps {
  connection: IConnection;
  trans: TranslationBundle;
}

/** What is wrong with the notebook's connection to its kernel, and for how long. */
export function Connection({ connection, trans }: IConnectionProps): JSX.Element | null {
  const isAmiss = connection.offlineSince_ms !== null || isNotLive(connection.link);
  const line = describe(connection, useTime(isAmiss), trans);
  return (
    line && (
      <span
        role="status"
        aria-live="off"
        title={line.title}
        aria-label={line.title}
        className={line.isFailure ? 'jp-mod-failed' : 'jp-mod-cut'}
      >
        {line.text}
      </span>
    )
  );
}

function isNotLive(link: ILink | null): boolean {
  return link !== null && link.state !== 'live';
}

/** The time in milliseconds, updated each second while `isCounting`. */
function useTime(isCounting: boolean): number {
  const [, setNow] = useState(0);
  useEffect(() => {
    const timer = isCounting ? window.setInterval(() => setNow(Date.now()), 1000) : 0;
    return () => window.clearInterval(timer);
  }, [isCounting]);
  return Date.now();
}
