/** In a notebook whose node ends soon: a line that says when and why, counts on, and keeps the node. */

import { ISessionContext } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import { Line, LineAbove } from '../components/lineabove';
import { Problem } from '../components/problem';
import { useSending } from '../components/sending';
import * as messages from '../messages/autostop';
import { autostopCountdown, autostopReason } from '../messages/autostop';
import { nodeNameOf } from '../nodekernel';
import { INodeKey } from '../tokens';
import { IBrake, IBrakes, IKeep } from './records';
import { KeepButtons } from './sections/keep';
import { Reminder } from './sections/reminder';
import { IMoneyActs } from './sections/section';
import { useServerNow } from './servertime';
import { IDated, IMoneyModel } from './tokens';
import { canBeKept } from './words';

type OnKeep = (key: INodeKey, keep: IKeep) => Promise<void>;

export class EndWarning extends LineAbove {
  /**
   * @param _acts what can be done about it
   * @param _model what is known of all brakes; a notebook asks nothing by itself
   * @param _onKept lets the notebook have the focus again
   */
  constructor(
    private readonly _session: ISessionContext,
    private readonly _model: IMoneyModel,
    private readonly _acts: Pick<IMoneyActs, 'onKeep' | 'onEnd'>,
    private readonly _onKept: () => void,
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
            brakes={this._model.parts.brakes.dated}
            nodeName={this._nodeName}
            trans={this._trans}
            onKeep={this._keep}
            onEnd={this._acts.onEnd}
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

  /** The line goes away with the button that was clicked. */
  private readonly _keep: OnKeep = async (key, keep) => {
    await this._acts.onKeep(key, keep);
    const focused = document.activeElement;
    if (focused === document.body || this.node.contains(focused)) {
      this._onKept();
    }
  };
}

interface IProps {
  brakes: IDated<IBrakes> | null;
  /** Of the node that the kernel runs on; null where it runs elsewhere. */
  nodeName: string | null;
  trans: TranslationBundle;
  onKeep: OnKeep;
  onEnd: IMoneyActs['onEnd'];
  onHeight: (height: number) => void;
}

export function Warning(props: IProps): JSX.Element {
  const { brakes, nodeName, trans } = props;
  const brake = brakes?.data.nodes.find(({ name }) => name === nodeName);
  const isEnding = brake !== undefined && brake.is_warning && brake.ends_at !== null;
  return (
    <>
      <div className="jp-tpu-Announcer" role="status">
        {isEnding && announcementOf(brake, trans)}
      </div>
      {brake?.reminder && !isEnding && <Reminded {...props} brake={brake} />}
      {isEnding && brakes && <Ending {...props} brake={brake} brakes={brakes} />}
    </>
  );
}

/** Said once: it has no time in it that goes on. */
function announcementOf({ node_id, ends_why }: IBrake, trans: TranslationBundle): string {
  return messages.endsSoonBecause(node_id, autostopReason(ends_why, trans), trans);
}

function Reminded(props: IProps & { brake: IBrake }): JSX.Element {
  const { brake, trans, onKeep, onEnd, onHeight } = props;
  const { isSending, problem, send, dismiss } = useSending();
  return (
    <Line role="group" aria-label={messages.isBilled(brake.node_id, trans)} onHeight={onHeight}>
      <Reminder
        brake={brake}
        isBusy={isSending}
        trans={trans}
        onKeep={keep => send(() => onKeep(brake, keep))}
        onEnd={() => send(() => onEnd(brake, brake.action))}
      />
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </Line>
  );
}

interface IEndingProps extends IProps {
  brake: IBrake;
  brakes: IDated<IBrakes>;
}

function Ending({ brake, brakes, trans, onKeep, onHeight }: IEndingProps): JSX.Element {
  const now_s = useServerNow({ dated: brakes, problem: null });
  const { isSending, problem, send, dismiss } = useSending();
  return (
    <Line role="group" aria-label={messages.warningLabel(brake.node_id, trans)} onHeight={onHeight}>
      <strong className="jp-tpu-EndWarning-name" title={brake.node_id}>
        {brake.node_id}
      </strong>
      <span role="timer" aria-live="off" title={brake.reason}>
        {autostopCountdown(brake, now_s, brakes.server_s, trans)}
      </span>
      {canBeKept(brake) && (
        <KeepButtons
          brake={brake}
          isKept={false}
          isBusy={isSending}
          now_s={now_s}
          trans={trans}
          onKeep={keep => send(() => onKeep(brake, keep))}
        />
      )}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </Line>
  );
}
