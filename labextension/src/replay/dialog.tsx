/** The dialog that chooses the lost cells to run again, in their original order. */

import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useState } from 'react';
import { Button } from '../components/button';
import * as messages from '../messages/replay';
import { stateText } from '../messages/replay';
import { IChoice } from './plan';

/** The body of the dialog; its value is the ids of the chosen runs. */
export class ReplayChoice extends ReactWidget implements Dialog.IBodyWidget<ReadonlySet<string>> {
  constructor(
    private readonly _choices: readonly IChoice[],
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-Replay-choice');
    this._chosen = new Set(
      this._choices.filter(({ isProposed }) => isProposed).map(({ run }) => run.msg_id)
    );
  }

  getValue(): ReadonlySet<string> {
    return this._chosen;
  }

  protected render(): JSX.Element {
    return (
      <ChoiceList
        choices={this._choices}
        initial={this._chosen}
        onChange={chosen => (this._chosen = chosen)}
        trans={this._trans}
      />
    );
  }

  private _chosen: ReadonlySet<string>;
}

interface IProps {
  choices: readonly IChoice[];
  initial: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
  trans: TranslationBundle;
}

export function ChoiceList({ choices, initial, onChange, trans }: IProps): JSX.Element {
  const [chosen, setChosen] = useState(initial);
  const choose = (next: ReadonlySet<string>): void => {
    setChosen(next);
    onChange(next);
  };
  const toggle = (msgId: string): void => {
    const next = new Set(chosen);
    if (!next.delete(msgId)) {
      next.add(msgId);
    }
    choose(next);
  };
  const all = choices.filter(({ canRun }) => canRun).map(({ run }) => run.msg_id);
  return (
    <>
      <p>{messages.explanation(trans)}</p>
      <div className="jp-tpu-Actions">
        <Button onClick={() => choose(new Set(all))}>{messages.selectAll(trans)}</Button>
        <Button onClick={() => choose(new Set())}>{messages.selectNone(trans)}</Button>
      </div>
      <ol>
        {choices.map(choice => (
          <Choice
            key={choice.run.msg_id}
            choice={choice}
            isChosen={chosen.has(choice.run.msg_id)}
            onToggle={() => toggle(choice.run.msg_id)}
            trans={trans}
          />
        ))}
      </ol>
    </>
  );
}

interface IChoiceProps {
  choice: IChoice;
  isChosen: boolean;
  onToggle: () => void;
  trans: TranslationBundle;
}

function Choice({ choice, isChosen, onToggle, trans }: IChoiceProps): JSX.Element {
  const { run, canRun, isEdited, isMissing } = choice;
  const notes = [
    stateText(run, trans),
    isEdited && messages.editedSince(trans),
    isMissing && canRun && messages.cellAdded(trans),
    !canRun && messages.cannotRun(trans)
  ].filter(Boolean);
  return (
    <li>
      <label>
        <input type="checkbox" checked={isChosen} disabled={!canRun} onChange={onToggle} />
        <code>{firstLines(run.code)}</code>
        <small>{notes.join(' · ')}</small>
      </label>
    </li>
  );
}

/** The most lines of a cell that are shown. */
const MOST_LINES = 3;

function firstLines(code: string): string {
  const lines = code.trimEnd().split('\n');
  return [...lines.slice(0, MOST_LINES), ...(lines.length > MOST_LINES ? ['…'] : [])].join('\n');
}
