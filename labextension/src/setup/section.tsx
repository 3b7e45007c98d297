import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef } from 'react';
import { IStatus } from '../api.generated';
import { Button } from '../components/button';
import { Problem } from '../components/problem';
import { hasKernel } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/setup';
import { IDatedList } from '../tokens';
import { ISetupActions, SetupLines } from './lines';
import { FirstStep, ISetupModel } from './tokens';

interface IProps {
  model: ISetupModel;
  status: IStatus | null;
  list: IDatedList | null;
  /** Whether the form for a new node is open. */
  isFormOpen: boolean;
  /** The example notebook that the emulated cloud puts into the user's folder; null if there is none. */
  example: string | null;
  actions: ISetupActions;
  trans: TranslationBundle;
}

/**
 * The part above the nodes: a note that the cloud is emulated, the first steps, and the set-up if the user has opened
 * it.
 */
export function SetupSection(props: IProps): JSX.Element {
  const { model, status, actions, trans } = props;
  return (
    <>
      {status?.trial && <Trial {...props} />}
      {model.busy === 'trial' && (
        <div className="jp-tpu-Notice" role="status">
          {status?.trial ? messages.goingBack(trans) : messages.starting(trans)}
        </div>
      )}
      {model.problem && model.failedKey === null && !showsLines(props) && (
        <Problem problem={model.problem} trans={trans} onDismiss={() => model.close()} />
      )}
      {model.isOpen ? <Opened {...{ model, status, actions, trans }} /> : <NextStep {...props} />}
    </>
  );
}

/** The numbered first steps; after they were finished, only a missing connection to the cloud. */
function NextStep(props: IProps): JSX.Element | null {
  const { firstStep, isFinished } = props.model;
  // The form needs the space: its button must be visible.
  if (firstStep === 'none' || (props.isFormOpen && firstStep !== 'connect')) {
    return null;
  }
  return isFinished ? (
    <section className="jp-tpu-Setup" aria-label={messages.title(props.trans)}>
      <h3>{messages.connectStep(props.trans)}</h3>
      <Connect {...props} />
    </section>
  ) : (
    <FirstSteps {...props} />
  );
}

function showsLines({ model }: IProps): boolean {
  return model.isOpen || model.firstStep === 'connect';
}

function Trial({ model, example, actions, trans }: IProps): JSX.Element {
  return (
    <div className="jp-tpu-Trial">
      <span>
        {messages.trying(trans)}
        {example && <> {messages.exampleIsThere(example, trans)}</>}
      </span>
      <Button isOff={model.busy !== null} onClick={actions.onEndTrial}>
        {messages.backToGoogleCloud(trans)}
      </Button>
    </div>
  );
}

function Opened({
  model,
  status,
  actions,
  trans
}: Omit<IProps, 'list' | 'isFormOpen' | 'example'>): JSX.Element {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = section.current;
    const onKey = ({ key }: KeyboardEvent): void => void (key === 'Escape' && model.close());
    element?.querySelector('h3')?.focus();
    element?.addEventListener('keydown', onKey);
    return () => element?.removeEventListener('keydown', onKey);
  }, [model]);
  return (
    <section ref={section} className="jp-tpu-Setup" aria-label={messages.title(trans)}>
      <h3 tabIndex={-1}>{messages.title(trans)}</h3>
      {model.setup?.is_complete && <div role="status">{messages.complete(trans)}</div>}
      <SetupLines model={model} actions={actions} trans={trans} />
      {!status?.emulated && (
        <TryTheEmulatedCloud
          model={model}
          hint={messages.tryBesideHint(trans)}
          {...{ actions, trans }}
        />
      )}
      <div className="jp-tpu-Actions">
        <Button isOff={model.busy !== null} onClick={actions.onCheck}>
          {messages.checkAgain(trans)}
        </Button>
        <Button onClick={() => model.close()}>{messages.close(trans)}</Button>
      </div>
    </section>
  );
}

interface ITryProps extends Pick<IProps, 'model' | 'actions' | 'trans'> {
  hint: string;
}

function TryTheEmulatedCloud({ model, hint, actions, trans }: ITryProps): JSX.Element {
  return (
    <div className="jp-tpu-Setup-try">
      <div className="jp-tpu-Muted">{hint}</div>
      <div className="jp-tpu-Actions">
        <Button isOff={model.busy === 'trial'} onClick={actions.onStartTrial}>
          {messages.tryEmulatedCloud(trans)}
        </Button>
      </div>
    </div>
  );
}

const ORDER: readonly FirstStep[] = ['connect', 'create', 'notebook'];

/** Three numbered steps from nothing to a notebook on a node. */
function FirstSteps(props: IProps): JSX.Element {
  const { model, trans } = props;
  const bodies: { readonly [step in FirstStep]?: JSX.Element } = {
    connect: <Connect {...props} />,
    create: <Create {...props} />,
    notebook: <Notebook {...props} />
  };
  const titles: { readonly [step in FirstStep]?: string } = {
    connect:
      model.firstStep === 'connect' ? messages.connectStep(trans) : messages.connected(trans),
    create: messages.createStep(trans),
    notebook: messages.notebookStep(trans)
  };
  const now = ORDER.indexOf(model.firstStep);
  return (
    <section className="jp-tpu-Setup" aria-label={messages.firstSteps(trans)}>
      <h3>{messages.firstSteps(trans)}</h3>
      <ol className="jp-tpu-FirstSteps">
        {ORDER.map((step, index) => (
          <li
            key={step}
            className={index < now ? 'jp-mod-done' : index > now ? 'jp-mod-later' : 'jp-mod-now'}
            aria-current={index === now ? 'step' : undefined}
          >
            <span className="jp-tpu-FirstSteps-number" aria-hidden="true">
              {index < now ? '✓' : index + 1}
            </span>
            <div>
              <strong>{titles[step]}</strong>
              <span className="jp-tpu-Announcer">{messages.stepState(index < now, trans)}</span>
              {index === now && bodies[step]}
            </div>
          </li>
        ))}
      </ol>
      {model.firstStep !== 'connect' && (
        <div className="jp-tpu-Actions">
          <Button onClick={() => model.hideFirstSteps()}>{messages.hide(trans)}</Button>
        </div>
      )}
    </section>
  );
}

function Connect({ model, actions, trans }: IProps): JSX.Element {
  return (
    <>
      <TryTheEmulatedCloud model={model} hint={messages.tryHint(trans)} {...{ actions, trans }} />
      <SetupLines model={model} actions={actions} trans={trans} />
    </>
  );
}

function Create({ model, status, actions, trans }: IProps): JSX.Element {
  return (
    <>
      <div className="jp-tpu-Muted">{messages.createHint(trans)}</div>
      <div className="jp-tpu-Actions">
        <Button kind="accept" onClick={actions.onOpenForm}>
          {common.createNode(trans)}
        </Button>
        {!status?.emulated && (
          <Button onClick={() => model.open()}>{messages.setUpEllipsis(trans)}</Button>
        )}
      </div>
    </>
  );
}

/** The last step; its button is on the node's card. */
function Notebook({ list, trans }: IProps): JSX.Element {
  return (
    <div className="jp-tpu-Muted">
      {list?.nodes.some(hasKernel) ? messages.notebookHint(trans) : messages.nodeIsStarting(trans)}
    </div>
  );
}
