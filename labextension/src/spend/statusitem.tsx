/** Current rate, load, budget and next auto-stop in the status bar; never hidden, because it opens the panel. */

import { TranslationBundle } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import React from 'react';
import { INodeAutostop, INodeList, ISpend } from '../api.generated';
import { nextToStop } from '../autostop/rules';
import { useNow } from '../components/now';
import { inProgress, isEnding } from '../fleet';
import { tpuIcon } from '../icons';
import { autostopSummary } from '../messages/autostop';
import * as messages from '../messages/spend';
import { formatRate, shortRate } from '../messages/spend';
import * as surfaces from '../messages/surfaces';
import { formatDuration } from '../messages/units';
import { cutOf } from '../money/connections';
import { serverNow } from '../money/model';
import { waitingIn } from '../money/parts';
import { IMoneyModel } from '../money/tokens';
import { ITpuModel } from '../tokens';
import { budgetErrors, budgetShare, isRunning } from './rates';

/** The most characters of a node's name that are shown. */
const MOST_NAME = 24;

type Model = Pick<IMoneyModel, 'parts' | 'cuts'>;

export class SpendStatus extends VDomRenderer<IMoneyModel> {
  /**
   * @param _busy the nodes on which a notebook's kernel is busy now
   * @param _open shows the pop-up
   */
  constructor(
    model: IMoneyModel,
    private readonly _nodes: Pick<ITpuModel, 'list' | 'stateChanged'>,
    private readonly _busy: () => ReadonlySet<string>,
    private readonly _trans: TranslationBundle,
    private readonly _open: () => void
  ) {
    super(model);
    this._nodes.stateChanged.connect(this.update, this);
    this.addClass('jp-tpu-MoneyStatus');
  }

  dispose(): void {
    this._nodes.stateChanged.disconnect(this.update, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const { dated, problem } = this.model.parts.spend;
    const shown = { trans: this._trans, onOpen: this._open };
    if (dated) {
      const busy = this._busy();
      return (
        <Item
          spend={dated.data}
          model={this.model}
          list={this._nodes.list}
          {...{ busy, ...shown }}
        />
      );
    }
    const text = !problem
      ? surfaces.notLoaded(this._trans)
      : problem.code === 'server_unreachable'
        ? surfaces.noServer(this._trans)
        : surfaces.notSetUp(this._trans);
    return <StatusButton text={text} title={problem?.message ?? text} {...shown} />;
  }
}

interface IProps {
  spend: ISpend;
  model: Model;
  list: INodeList | null;
  /** The nodes on which a notebook's kernel is busy now; the auto-stop hears of it later. */
  busy?: ReadonlySet<string>;
  trans: TranslationBundle;
  onOpen: () => void;
}

/** One button with the whole status, which opens the pop-up. */
export function Item({ spend, model, list, busy, trans, onOpen }: IProps): JSX.Element {
  const now_ms = useNow();
  const { dated } = model.parts.autostops;
  const autostops = (dated?.data.nodes ?? []).filter(({ name }) => !isEnding(list, name));
  const now_s = dated ? serverNow(dated, now_ms) : now_ms / 1000;
  const isUsed = (node: INodeAutostop): boolean => busy?.has(node.name) || isActive(node);
  const next = nextToStop(autostops.filter(node => node.ends_why !== 'idle' || !isUsed(node)));
  const cut = firstCut(spend, model, autostops, now_ms / 1000);
  const faults = budgetErrors(spend);
  const share = budgetShare(spend);
  const queue = model.parts.queue.dated?.data;
  const waiting = queue ? waitingIn(queue).length : 0;
  const { problem } = model.parts.spend;
  const isWarning =
    [cut, problem].some(Boolean) ||
    faults.length > 0 ||
    (share ?? 0) >= 0.8 ||
    autostops.some(({ is_warning, reminder }) => is_warning || reminder !== null);
  const texts = [
    isRunning(spend) ? shortRate(spend, trans) : progressText(list, trans),
    waiting > 0 ? surfaces.queued(waiting, trans) : '',
    problem ? messages.outOfDate(trans) : '',
    cut ? messages.disconnected(shortName({ node_id: cut }), trans) : '',
    endText(next, now_s, trans) || reminderText(autostops, trans),
    useText(spend, autostops, isUsed, trans),
    share === null ? '' : surfaces.ofBudget(share, trans)
  ];
  const text = texts.filter(Boolean).join(' · ');
  const title = [
    text, // the status bar may not have room for all of it
    messages.tooltip(formatRate(spend, trans), trans),
    ...autostops.flatMap(({ reminder }) => (reminder ? [reminder.text] : [])),
    next && `${next.node_id}: ${autostopSummary(next, now_s, trans)}`,
    ...faults,
    problem && messages.outOfDate(trans)
  ];
  return (
    <StatusButton
      text={text}
      title={title.filter(Boolean).join('\n')}
      isWarning={isWarning}
      trans={trans}
      onOpen={onOpen}
    />
  );
}

interface IButtonProps {
  text: string;
  title: string;
  isWarning?: boolean;
  trans: TranslationBundle;
  onOpen: () => void;
}

function StatusButton({ text, title, isWarning, onOpen }: IButtonProps): JSX.Element {
  const Icon = tpuIcon.react;
  return (
    <button
      type="button"
      className={isWarning ? 'jp-mod-warning' : undefined}
      aria-haspopup="dialog"
      title={title}
      onClick={onOpen}
    >
      <Icon tag="span" stylesheet="statusBar" aria-hidden />
      <span>{text}</span>
    </button>
  );
}

/** The first node whose connection is lost. */
function firstCut(
  spend: ISpend,
  { cuts }: Model,
  autostops: readonly INodeAutostop[],
  now_s: number
): string | undefined {
  const isCut = (name: string): boolean => {
    const autostop = autostops.find(one => one.name === name);
    return cutOf(cuts, name, autostop, now_s) !== undefined;
  };
  return spend.nodes.find(({ is_open, name }) => is_open && isCut(name))?.node_id;
}

/** What is on its way while no node is READY. */
function progressText(list: INodeList | null, trans: TranslationBundle): string {
  const names = (verb: 'create' | 'start'): string[] =>
    inProgress(verb, list).map(node_id => shortName({ node_id }));
  const [created, started] = [names('create'), names('start')];
  return created.length > 0
    ? surfaces.creating(created, trans)
    : started.length > 0
      ? surfaces.starting(started, trans)
      : surfaces.nothingRuns(trans);
}

function endText(next: INodeAutostop | undefined, now_s: number, trans: TranslationBundle): string {
  return next && next.ends_at !== null
    ? messages.nodeEndsIn(
        { ...next, node_id: shortName(next) },
        formatDuration(next.ends_at - now_s, trans),
        trans
      )
    : '';
}

/** The name of a node, which may have 63 characters, shortened so that its status fits. */
function shortName({ node_id }: Pick<INodeAutostop, 'node_id'>): string {
  return node_id.length > MOST_NAME ? `${node_id.slice(0, MOST_NAME - 1)}…` : node_id;
}

function reminderText(autostops: readonly INodeAutostop[], trans: TranslationBundle): string {
  const reminded = autostops.find(({ reminder }) => reminder !== null);
  return reminded?.reminder
    ? messages.noActionFor(
        shortName(reminded),
        formatDuration(reminded.reminder.days * 86400, trans),
        trans
      )
    : '';
}

/** Whether a cell runs on the node, or its chips work. */
function isActive({ sources }: INodeAutostop): boolean {
  return sources.some(
    ({ source, state }) =>
      state === 'active' && (source === 'execution' || source === 'accelerator')
  );
}

/** How many of the nodes that are billed are in use; empty if none is known to be, and one is unknown. */
function useText(
  spend: ISpend,
  autostops: readonly INodeAutostop[],
  isUsed: (node: INodeAutostop) => boolean,
  trans: TranslationBundle
): string {
  const billed = new Set(spend.nodes.filter(({ is_open }) => is_open).map(({ name }) => name));
  const known = autostops.filter(({ name }) => billed.has(name));
  const used = known.filter(isUsed).length;
  const isKnown = known.every(({ verdict }) => verdict !== 'unknown');
  if (known.length === 0 || (used === 0 && !isKnown)) {
    return '';
  }
  if (known.length > 1) {
    return surfaces.someInUse(used, known.length, trans);
  }
  return used > 0 ? surfaces.inUse(trans) : surfaces.idle(trans);
}
