/** A short notice in the notebook's toolbar about restored outputs, and a button while more can be shown. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';
import * as messages from '../messages/notebook';
import { NotebookRestorer } from './restorer';

/** How long the notice is shown: long enough to read it. */
const SHOWN_MS = 20_000;

export class RestoredNotice extends ReactWidget {
  constructor(
    private readonly _restorer: NotebookRestorer | null,
    private readonly _trans: TranslationBundle,
    private readonly _onShow: () => void
  ) {
    super();
    this.addClass('jp-tpu-Restored');
  }

  protected render(): JSX.Element | null {
    const restorer = this._restorer;
    return (
      restorer && (
        <UseSignal signal={restorer.changed}>
          {() => (
            <Notice
              cells={restorer.restoredCells}
              unplaced={restorer.unplaced.length}
              shortened={restorer.shortened.length}
              problem={restorer.problem?.message ?? ''}
              trans={this._trans}
              onShow={this._onShow}
            />
          )}
        </UseSignal>
      )
    );
  }
}

interface IProps {
  /** How many cells were restored. */
  cells: number;
  /** How many outputs belong to cells that are not in the notebook. */
  unplaced: number;
  /** How many outputs are not shown in full. */
  shortened: number;
  /** Why the last request failed; empty if it succeeded. */
  problem: string;
  trans: TranslationBundle;
  onShow: () => void;
}

export function Notice(props: IProps): JSX.Element {
  const { cells, problem, trans } = props;
  const isFresh = useRecent(SHOWN_MS, cells);
  return (
    <>
      <span role="status" title={problem}>
        {problem && messages.notRestored(trans)}
        {!problem && cells > 0 && isFresh && messages.cellsRestored(cells, trans)}
      </span>
      <More {...props} />
    </>
  );
}

function More({ unplaced, shortened, trans, onShow }: IProps): JSX.Element | null {
  const parts = [
    unplaced && messages.withoutCell(unplaced, trans),
    shortened && messages.shortened(shortened, trans)
  ].filter(Boolean);
  return parts.length > 0 ? (
    <button type="button" onClick={onShow} title={messages.showThese(trans)}>
      {parts.join(' · ')}
    </button>
  ) : null;
}

/** True for a while after a value has changed. */
function useRecent(time_ms: number, value: number): boolean {
  const [old, setOld] = useState<number | null>(null);
  useEffect(() => {
    const timer = window.setTimeout(() => setOld(value), time_ms);
    return () => window.clearTimeout(timer);
  }, [time_ms, value]);
  return old !== value;
}
