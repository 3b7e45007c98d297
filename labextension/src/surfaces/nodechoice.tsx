/** The dialog that chooses the node on which a notebook runs, or a new node. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useId, useState } from 'react';
import { INode } from '../api.generated';
import * as common from '../messages/common';
import * as messages from '../messages/surfaces';
import { nodePrice } from '../messages/units';

/** A node, or `new` for one that is yet to be created. */
export type Choice = INode | 'new';

interface IQuestion {
  /** Name of the notebook. */
  readonly title: string;
  readonly nodes: readonly INode[];
  /** Kernelspec of the notebook's present kernel. */
  readonly current: string | undefined;
}

/** Let the user choose the node on which a notebook runs; null if the user cancels. */
export async function askForNode(
  question: IQuestion,
  trans: TranslationBundle
): Promise<Choice | null> {
  const body = new NodeChoice(question, trans);
  const result = await showDialog<Choice>({
    title: messages.runOnTpu(question.title, trans),
    body,
    buttons: [
      Dialog.cancelButton({ label: common.cancel(trans) }),
      Dialog.okButton({ label: messages.continueButton(trans) })
    ]
  });
  return result.button.accept ? result.value : null;
}

class NodeChoice extends ReactWidget implements Dialog.IBodyWidget<Choice> {
  constructor(
    private readonly _question: IQuestion,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-NodeChoice');
    const other = _question.nodes.find(({ kernelspec }) => kernelspec !== _question.current);
    this._value = other ?? _question.nodes[0] ?? 'new';
  }

  getValue(): Choice {
    return this._value;
  }

  protected render(): JSX.Element {
    return (
      <NodeChoices
        {...this._question}
        initial={this._value}
        trans={this._trans}
        onChange={choice => (this._value = choice)}
      />
    );
  }

  private _value: Choice;
}

interface IProps extends IQuestion {
  readonly initial: Choice;
  readonly trans: TranslationBundle;
  readonly onChange: (choice: Choice) => void;
}

/** One radio button for each READY node, and one for a new node. */
export function NodeChoices(props: IProps): JSX.Element {
  const { nodes, current, initial, trans, onChange } = props;
  const [chosen, setChosen] = useState(initial);
  const choose = (choice: Choice): void => {
    setChosen(choice);
    onChange(choice);
  };
  return (
    <fieldset className="jp-tpu-Choices">
      <legend>{messages.chooseNode(trans)}</legend>
      {nodes.map(node => (
        <Radio
          key={node.name}
          isChosen={node === chosen}
          name={node.node_id}
          detail={detailOf(node, current, trans)}
          onChoose={() => choose(node)}
        />
      ))}
      <Radio
        isChosen={chosen === 'new'}
        name={messages.newNode(trans)}
        detail={messages.newNodeHint(trans)}
        onChoose={() => choose('new')}
      />
      <p className="jp-tpu-Muted">{messages.kernelRestarts(trans)}</p>
    </fieldset>
  );
}

function detailOf(node: INode, current: string | undefined, trans: TranslationBundle): string {
  return [
    node.accelerator_type,
    node.zone,
    nodePrice(node, trans),
    node.kernelspec === current ? messages.currentNode(trans) : ''
  ]
    .filter(Boolean)
    .join(' · ');
}

interface IRadioProps {
  isChosen: boolean;
  name: string;
  detail: string;
  onChoose: () => void;
}

function Radio({ isChosen, name, detail, onChoose }: IRadioProps): JSX.Element {
  const id = useId();
  return (
    <div className="jp-tpu-Choice">
      <input
        id={id}
        type="radio"
        name="jp-tpu-node"
        checked={isChosen}
        aria-describedby={`${id}-detail`}
        onChange={onChoose}
      />
      <label htmlFor={id} title={name}>
        {name}
      </label>
      <span id={`${id}-detail`} className="jp-tpu-Muted">
        {detail}
      </span>
    </div>
  );
}
