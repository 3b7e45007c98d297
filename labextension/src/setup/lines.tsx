import { TranslationBundle } from '@jupyterlab/translation';
import React, { useContext, useEffect, useRef, useState } from 'react';
import { ISetupStep, ISetupValues } from '../api.generated';
import { Button } from '../components/button';
import { TextField } from '../components/field';
import { Problem } from '../components/problem';
import { ErrorActionsContext, hintOf } from '../erroractions';
import * as problems from '../messages/problems';
import * as messages from '../messages/setup';
import { IProblem } from '../tokens';
import { ISetupModel } from './tokens';

/** Callbacks of the set-up; each runs a command. */
export interface ISetupActions {
  onPerform: (step: ISetupStep, values: ISetupValues) => void;
  onCopy: (command: string) => void;
  onCheck: () => void;
  onOpenForm: () => void;
  onStartTrial: () => void;
  onEndTrial: () => void;
}

/** The amount proposed for the first budget, the same as on the command line. */
const SUGGESTED_USD = '50';

interface IProps {
  model: Pick<ISetupModel, 'setup' | 'busy' | 'problem' | 'failedKey'>;
  actions: ISetupActions;
  trans: TranslationBundle;
}

/** The five lines of the set-up, each with its state and its action. */
export function SetupLines({ model, actions, trans }: IProps): JSX.Element {
  const { setup, busy, problem, failedKey } = model;
  const list = useRef<HTMLUListElement>(null);
  const wasActing = useRef(false);
  useEffect(() => {
    // the clicked button may be gone; the keyboard focus continues from here
    if (wasActing.current && busy === null && document.activeElement === document.body) {
      list.current?.focus();
    }
    wasActing.current = busy === 'action';
  }, [busy]);
  return (
    <>
      {problem && failedKey === null && (
        <Problem problem={problem} trans={trans} onRetry={actions.onCheck} />
      )}
      {!setup && busy === 'check' && (
        <div className="jp-tpu-Muted" role="status">
          {messages.checking(trans)}
        </div>
      )}
      {setup && (
        <ul
          ref={list}
          className="jp-tpu-Setup-lines"
          tabIndex={-1}
          aria-label={messages.title(trans)}
          aria-busy={busy !== null}
        >
          {setup.steps.map(step => (
            <Line
              key={step.key}
              step={step}
              problem={failedKey === step.key ? problem : null}
              isOff={busy !== null && busy !== 'check'}
              actions={actions}
              trans={trans}
            />
          ))}
        </ul>
      )}
    </>
  );
}

interface ILineProps extends Pick<IProps, 'actions' | 'trans'> {
  step: ISetupStep;
  problem: IProblem | null;
  isOff: boolean;
}

function Line({ step, problem, isOff, actions, trans }: ILineProps): JSX.Element {
  const title = messages.keyTitle(step.key, trans);
  if (step.state === 'unknown' && !step.action && !step.error) {
    return <Later title={title} why={step.text} trans={trans} />;
  }
  return (
    <li className={`jp-tpu-Setup-line jp-mod-${step.state}`}>
      <div className="jp-tpu-Setup-head">
        <span className="jp-tpu-Setup-mark" aria-hidden="true">
          {MARKS[step.state]}
        </span>
        <strong>{title}</strong>
        <span className="jp-tpu-Muted">{messages.stateName(step.state, trans)}</span>
      </div>
      <div className="jp-tpu-Setup-body">
        <div>{step.text}</div>
        {step.error && <Reason error={step.error} text={step.text} trans={trans} />}
        {step.command && <div>{messages.waitingForCredentials(trans)}</div>}
        {step.command && (
          <div className="jp-tpu-Actions">
            <code className="jp-tpu-Setup-command">{step.command}</code>
            <Button onClick={() => actions.onCopy(step.command)}>
              {messages.copyCommand(trans)}
            </Button>
          </div>
        )}
        {step.action && <Action key={step.action} {...{ step, isOff, actions, trans }} />}
        {problem && <Problem problem={problem} trans={trans} />}
      </div>
    </li>
  );
}

interface ILaterProps extends Pick<IProps, 'trans'> {
  title: string;
  why: string;
}

/** A line that has to wait for an earlier one. */
function Later({ title, why, trans }: ILaterProps): JSX.Element {
  return (
    <li className="jp-tpu-Setup-line jp-tpu-Setup-head jp-tpu-Muted" title={why}>
      <span className="jp-tpu-Setup-mark" aria-hidden="true">
        ·
      </span>
      <span>{title}</span>
      <span className="jp-tpu-Announcer">{messages.notCheckedYet(trans)}</span>
    </li>
  );
}

const MARKS: { readonly [state in ISetupStep['state']]: string } = {
  done: '✓',
  to_do: '○',
  unknown: '?',
  failed: '✕'
};

interface IReasonProps {
  error: IProblem;
  /** The text that is already shown. */
  text: string;
  trans: TranslationBundle;
}

/** The reason why the state is unknown or the check failed, without repeating the line's own text. */
function Reason({ error, text, trans }: IReasonProps): JSX.Element {
  const known = useContext(ErrorActionsContext);
  const actions = known?.of(error) ?? [];
  const { shown, folded } = hintOf(error, actions.length > 0, trans);
  const isCommand = /`/.test(shown);
  const details = [folded, isCommand ? shown : '', error.raw].filter(Boolean);
  return (
    <>
      {error.message !== text && <div>{error.message}</div>}
      {shown && !isCommand && <div className="jp-tpu-Muted">{shown}</div>}
      {details.length > 0 && (
        <details className="jp-tpu-Raw">
          <summary>{problems.details(trans)}</summary>
          {details.map(one => (
            <pre key={one}>{one}</pre>
          ))}
        </details>
      )}
    </>
  );
}

type IActionProps = Pick<ILineProps, 'step' | 'isOff' | 'actions' | 'trans'>;

/** What an action does, the value that it needs, and its button. */
function Action({ step, isOff, actions, trans }: IActionProps): JSX.Element {
  const field = messages.fieldName(step.action, trans);
  const [value, setValue] = useState(step.action === 'set_budget' ? SUGGESTED_USD : '');
  const isMissing = field !== '' && value.trim() === '';
  return (
    <form
      className="jp-tpu-Setup-action"
      onSubmit={event => {
        event.preventDefault();
        if (!isOff && !isMissing) {
          actions.onPerform(step, valuesOf(step, value.trim()));
        }
      }}
    >
      {field && <TextField label={field} value={value} onChange={setValue} />}
      <div className="jp-tpu-Muted">{step.does}</div>
      <div className="jp-tpu-Actions">
        <Button
          type="submit"
          kind={step.state === 'done' || step.state === 'unknown' ? 'plain' : 'accept'}
          isOff={isOff || isMissing}
        >
          {messages.actionName(step.action, trans)}
        </Button>
      </div>
    </form>
  );
}

function valuesOf({ action, target }: ISetupStep, value: string): ISetupValues {
  switch (action) {
    case 'use_credentials':
      return { path: value };
    case 'use_project':
      return { project: value };
    case 'link_billing':
      return { account: target };
    case 'set_budget':
      return { usd: Number(value) };
    default:
      return {};
  }
}
