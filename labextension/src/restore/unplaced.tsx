/** Outputs that the notebook does not show, or not in full, with their code and buttons. */

import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Panel, Widget } from '@lumino/widgets';
import React, { useState } from 'react';
import { Button } from '../components/button';
import * as messages from '../messages/notebook';
import { IRecordedRequest } from './records';
import { Run } from './run';

/** Callbacks of the dialog. */
export interface IUnplacedActions {
  onCopy: (code: string) => void;
  /** Add a cell for a run at the end of the notebook. */
  onAdd: (msgId: string) => void;
  textUrl: (msgId: string, query?: string) => string;
}

interface IContent {
  readonly unplaced: readonly Run[];
  readonly shortened: readonly IRecordedRequest[];
}

/** The body of the dialog. Outputs are rendered as untrusted. */
export class UnplacedOutputs extends Panel {
  constructor(
    { unplaced, shortened }: IContent,
    private readonly _actions: IUnplacedActions,
    private readonly _rendermime: IRenderMimeRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-Elsewhere');
    const { _trans: trans } = this;
    const fromMissing = [messages.fromMissingCells(trans), messages.keptOnNode(trans)] as const;
    this._addSection(fromMissing, unplaced, run => {
      this.addWidget(ReactWidget.create(this._renderRun(run)));
      this.addWidget(this._outputsOf(run));
    });
    const shortenedHere = [messages.shortenedHere(trans), messages.fullTextOnNode(trans)] as const;
    this._addSection(shortenedHere, shortened, request =>
      this.addWidget(ReactWidget.create(this._renderShortened(request)))
    );
  }

  private _addSection<T>(
    [title, hint]: readonly [string, string],
    items: readonly T[],
    add: (item: T) => void
  ): void {
    if (items.length > 0) {
      this.addWidget(ReactWidget.create(<h3>{title}</h3>));
      this.addWidget(ReactWidget.create(<small>{hint}</small>));
      items.forEach(add);
    }
  }

  private _renderRun(run: Run): JSX.Element {
    return (
      <Code code={run.request.code} count={run.executionCount} isRunning={!run.isOver}>
        <Actions run={run} actions={this._actions} trans={this._trans} />
      </Code>
    );
  }

  private _renderShortened({ code, execution_count, msg_id }: IRecordedRequest): JSX.Element {
    const { textUrl } = this._actions;
    return (
      <Code code={code} count={execution_count} isRunning={false}>
        <div className="jp-tpu-Actions">
          <a href={textUrl(msg_id)} target="_blank" rel="noreferrer">
            {messages.openFullText(this._trans)}
          </a>
          <a href={textUrl(msg_id, '?download=1')} download>
            {messages.download(this._trans)}
          </a>
        </div>
      </Code>
    );
  }

  private _outputsOf(run: Run): Widget {
    const model = new OutputAreaModel({ values: run.outputs, trusted: false });
    const area = new SimplifiedOutputArea({ model, rendermime: this._rendermime });
    area.disposed.connect(() => model.dispose());
    return area;
  }
}

interface ICodeProps {
  code: string;
  count: number | null;
  isRunning: boolean;
  children: JSX.Element;
}

function Code({ code, count, isRunning, children }: ICodeProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Elsewhere-code">
        <span className="jp-tpu-Muted">[{isRunning ? '*' : (count ?? ' ')}]</span>
        <pre>{code}</pre>
      </div>
      {children}
    </>
  );
}

interface IActionsProps {
  run: Run;
  actions: IUnplacedActions;
  trans: TranslationBundle;
}

function Actions({ run, actions, trans }: IActionsProps): JSX.Element {
  const [isAdded, setAdded] = useState(false);
  const add = (): void => {
    setAdded(true);
    actions.onAdd(run.msgId);
  };
  return (
    <div className="jp-tpu-Actions">
      <Button onClick={() => actions.onCopy(run.request.code)}>{messages.copyCode(trans)}</Button>
      <Button onClick={add} disabled={isAdded}>
        {isAdded ? messages.addedAtEnd(trans) : messages.addAsCell(trans)}
      </Button>
    </div>
  );
}
