import { TranslationBundle } from '@jupyterlab/translation';
import React, { useContext, useState } from 'react';
import { IAction } from '../api.generated';
import { ErrorActionsContext, hintOf } from '../erroractions';
import * as common from '../messages/common';
import * as problems from '../messages/problems';
import { IProblem } from '../tokens';
import { Button } from './button';

interface IProps {
  problem: IProblem;
  trans: TranslationBundle;
  onDismiss?: () => void;
  onRetry?: () => void;
}

/** An error: what failed, what exists now, and buttons with what to do. Details are folded. */
export function Problem({ problem, trans, onDismiss, onRetry }: IProps): JSX.Element | null {
  const known = useContext(ErrorActionsContext);
  const [solved, setSolved] = useState<IProblem | null>(null);
  const actions = known?.of(problem) ?? [];
  const run = async (action: IAction): Promise<void> => {
    if (await known?.run(action)) {
      setSolved(problem);
    }
  };
  if (solved === problem) {
    return null;
  }
  const { shown, folded } = hintOf(problem, actions.length > 0, trans);
  return (
    <div className="jp-tpu-Problem" role="alert">
      <Lines problem={problem} hint={shown} trans={trans} />
      <Details texts={[folded, problem.raw]} trans={trans} />
      {(actions.length > 0 || onDismiss || onRetry) && (
        <div className="jp-tpu-Actions">
          {actions.map((action, index) => (
            <Button key={index} onClick={() => void run(action)}>
              {known?.label(action)}
            </Button>
          ))}
          {onRetry && <Button onClick={onRetry}>{common.tryAgain(trans)}</Button>}
          {onDismiss && <Button onClick={onDismiss}>{common.dismiss(trans)}</Button>}
        </div>
      )}
    </div>
  );
}

/** The message of the problem at the top of the panel, which is not repeated elsewhere; empty if there is none. */
export const SaidContext = React.createContext('');

interface ILoadProps extends Pick<IProps, 'problem' | 'trans'> {
  /** Whether there is no earlier data either. */
  isEmpty: boolean;
}

/** Why data couldn't be loaded, in one line, unless the top of the panel already shows the reason. */
export function LoadProblem({ problem, isEmpty, trans }: ILoadProps): JSX.Element | null {
  const said = useContext(SaidContext);
  const reason = problems.messageOf(problem, trans);
  // one part notices first that the server does not respond, and the top of the panel shows it soon afterwards
  if (problem.code !== 'server_unreachable' && reason !== said) {
    return (
      <div className="jp-tpu-Notice jp-tpu-Line" role="status" title={problem.raw}>
        {common.couldNotLoad(reason, trans)}
      </div>
    );
  }
  return isEmpty ? <div className="jp-tpu-Muted">{common.notLoaded(trans)}</div> : null;
}

interface ILinesProps extends Pick<IProps, 'problem' | 'trans'> {
  hint: string;
}

function Lines({ problem, hint, trans }: ILinesProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Problem-message">{problems.messageOf(problem, trans)}</div>
      {problem.exists && <div>{problem.exists}</div>}
      {hint && <div>{hint}</div>}
    </>
  );
}

interface IDetailsProps {
  texts: readonly string[];
  trans: TranslationBundle;
}

/** Folded details: terminal commands, and the other system's own text. */
function Details({ texts, trans }: IDetailsProps): JSX.Element | null {
  const shown = texts.filter(Boolean);
  return shown.length > 0 ? (
    <details className="jp-tpu-Raw">
      <summary>{problems.details(trans)}</summary>
      {shown.map(text => (
        <pre key={text}>{text}</pre>
      ))}
    </details>
  ) : null;
}
