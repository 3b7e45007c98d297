/** A banner in a notebook whose node stops soon: a countdown, the reason, and buttons that keep it running. */

import { ISessionContext } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { IAutostops, IKeepRunning, INodeAutostop } from '../api.generated';
import { Banner, NotebookBanner } from '../components/banner';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as messages from '../messages/autostop';
import { autostopCountdown, autostopReason } from '../messages/autostop';
import { IMoneyActions } from '../money/section';
import { useServerNow } from '../money/servertime';
import { IDated, IMoneyModel } from '../money/tokens';
import { nodeNameOf } from '../nodekernel';
import { INodeKey } from '../tokens';
import { KeepRunningButtons } from './keeprunning';
import { Reminder } from './reminder';
import { canKeepRunning } from './rules';

type OnKeepRunning = (key: INodeKey, request: IKeepRunning) => Promise<void>;

export class AutostopWarning extends NotebookBanner {
  /**
   * @param _actions callbacks of the buttons
   * @param _model the auto-stop of all nodes; a notebook requests nothing itself
   * @param _onKeptRunning gives the focus back to the notebook
   */
  constructor(
    private readonly _session: ISessionContext,
    private readonly _model: IMoneyModel,
    private readonly _actions: Pick<IMoneyActions, 'onKeepRunning' | 'onEnd'>,
    private readonly _onKeptRunning: () => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-EndWarning');
    this._session.kernelChanged.connect(this._onKernel, this);
  }

  dispose(): void {
    this._session.kernelChanged.disconnect(this._onKernel, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this._model.stateChanged}>
        {() => (
          <Warning
            autostops={this._model.parts.autostops.dated}
            nodeName={this._nodeName}
            trans={this._trans}
            onKeepRunning={this._keep}
            onEnd={this._actions.onEnd}
            onHeight={this.setHeight}
          />
        )}
      </UseSignal>
    );
  }

  private get _nodeName(): string | null {
    const kernel = this._session.session?.kernel;
    return kernel ? nodeNameOf(kernel.name, this._session.specsManager.specs) : null;
  }

  private _onKernel(): void {
    this.update();
  }

  /** Keep the node running, and return the focus to the notebook: the banner disappears with its button. */
  private readonly _keep: OnKeepRunning = async (key, request) => {
    await this._actions.onKeepRunning(key, request);
    const focused = document.activeElement;
    if (focused === document.body || this.node.contains(focused)) {
      this._onKeptRunning();
    }
  };
}

interface IProps {
  autostops: IDated<IAutostops> | null;
  /** The node of the notebook's kernel; null if the kernel is not on a node. */
  nodeName: string | null;
  trans: TranslationBundle;
  onKeepRunning: OnKeepRunning;
  onEnd: IMoneyActions['onEnd'];
  onHeight: (height: number) => void;
}

export function Warning(props: IProps): JSX.Element {
  const { autostops, nodeName, trans } = props;
  const autostop = autostops?.data.nodes.find(({ name }) => name === nodeName);
  const isEnding = autostop !== undefined && autostop.is_warning && autostop.ends_at !== null;
  return (
    <>
      <div className="jp-tpu-Announcer" role="status">
        {isEnding && announcement(autostop, trans)}
      </div>
      {autostop?.reminder && !isEnding && <ReminderLine {...props} autostop={autostop} />}
      {isEnding && autostops && (
        <WarningLine {...props} autostop={autostop} autostops={autostops} />
      )}
    </>
  );
}

/** The announcement for screen readers. It is read once, so it contains no countdown. */
function announcement({ node_id, ends_why }: INodeAutostop, trans: TranslationBundle): string {
  return messages.endsSoonBecause(node_id, autostopReason(ends_why, trans), trans);
}

function ReminderLine(props: IProps & { autostop: INodeAutostop }): JSX.Element {
  const { autostop, trans, onKeepRunning, onEnd, onHeight } = props;
  const { isSending, problem, send, dismiss } = useRequest();
  return (
    <Banner
      role="group"
      aria-label={messages.isBilled(autostop.node_id, trans)}
      onHeight={onHeight}
    >
      <Reminder
        autostop={autostop}
        isBusy={isSending}
        trans={trans}
        onKeepRunning={request => send(() => onKeepRunning(autostop, request))}
        onEnd={() => send(() => onEnd(autostop, autostop.action))}
      />
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </Banner>
  );
}

interface IWarningLineProps extends IProps {
  autostop: INodeAutostop;
  autostops: IDated<IAutostops>;
}

function WarningLine({
  autostop,
  autostops,
  trans,
  onKeepRunning,
  onHeight
}: IWarningLineProps): JSX.Element {
  const now_s = useServerNow({ dated: autostops, problem: null });
  const { isSending, problem, send, dismiss } = useRequest();
  return (
    <Banner
      role="group"
      aria-label={messages.warningLabel(autostop.node_id, trans)}
      onHeight={onHeight}
    >
      <strong className="jp-tpu-EndWarning-name" title={autostop.node_id}>
        {autostop.node_id}
      </strong>
      <span role="timer" aria-live="off" title={autostop.reason}>
        {autostopCountdown(autostop, now_s, autostops.server_s, trans)}
      </span>
      {canKeepRunning(autostop) && (
        <KeepRunningButtons
          autostop={autostop}
          isKept={false}
          isBusy={isSending}
          now_s={now_s}
          trans={trans}
          onKeepRunning={request => send(() => onKeepRunning(autostop, request))}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </Banner>
  );
}
