import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import * as common from '../messages/common';
import * as messages from '../messages/panel';
import { IProblem } from '../tokens';
import { Button } from './button';

interface IProps {
  problem: IProblem;
  trans: TranslationBundle;
  onDismiss?: () => void;
  onRetry?: () => void;
}

/** An error: what failed, what exists now, what to do; the original message one click away. */
export function Problem({ problem, trans, onDismiss, onRetry }: IProps): JSX.Element {
  return (
    <div className="jp-tpu-Problem" role="alert">
      <Lines problem={problem} trans={trans} />
      <RawText text={problem.raw} trans={trans} />
      {(onDismiss || onRetry) && (
        <div className="jp-tpu-Actions">
          {onRetry && <Button onClick={onRetry}>{common.tryAgain(trans)}</Button>}
          {onDismiss && <Button onClick={onDismiss}>{common.dismiss(trans)}</Button>}
        </div>
      )}
    </div>
  );
}

function Lines({ problem, trans }: { problem: IProblem; trans: TranslationBundle }): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Problem-message">{messageOf(problem, trans)}</div>
      {problem.exists && <div>{problem.exists}</div>}
      {problem.hint && <div>{problem.hint}</div>}
    </>
  );
}

/** The message for what only the browser can know; all others come from the server. */
function messageOf(problem: IProblem, trans: TranslationBundle): string {
  return problem.code === 'server_unreachable'
    ? messages.serverUnreachable(trans)
    : problem.message;
}

function RawText({ text, trans }: { text: string; trans: TranslationBundle }): JSX.Element | null {
  return text ? (
    <details className="jp-tpu-Raw">
      <summary>{common.originalMessage(trans)}</summary>
      <pre>{text}</pre>
    </details>
  ) : null;
}
