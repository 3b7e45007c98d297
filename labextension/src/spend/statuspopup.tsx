/**
 * The pop-up of the status item: each node's connection, load and auto-stop, the budgets, and a button that opens the
 * panel.
 */

import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useReducer, useRef } from 'react';
import { IBudget, INode } from '../api.generated';
import { Button } from '../components/button';
import { useNow } from '../components/now';
import { describe } from '../connectionstate';
import { ILoadModel } from '../load/tokens';
import { samplesOf, totalsOf } from '../load/totals';
import { autostopSummary } from '../messages/autostop';
import { stateName } from '../messages/panel';
import * as spendMessages from '../messages/spend';
import { budgetUse, formatRate } from '../messages/spend';
import * as messages from '../messages/surfaces';
import { nodePrice } from '../messages/units';
import { cutOf } from '../money/connections';
import { serverNow } from '../money/model';
import { Meter } from '../money/section';
import { IMoneyModel } from '../money/tokens';
import { ITpuModel } from '../tokens';
import { levelOf } from './spendsection';

/** Interval of requests for the load while the pop-up is open. */
const INTERVAL_MS = 3_000;

export interface IPopupActions {
  readonly onOpenPanel: () => void;
  readonly onCreate: () => void;
  readonly onStopAll: () => void;
}

interface IProps {
  readonly nodes: Pick<ITpuModel, 'list' | 'stateChanged'>;
  readonly money: IMoneyModel;
  readonly load: ILoadModel | null;
  readonly actions: IPopupActions;
  readonly trans: TranslationBundle;
}

export class StatusPopup extends ReactWidget {
  constructor(private readonly _props: IProps) {
    super();
    this.addClass('jp-tpu-StatusPopup');
    this.node.setAttribute('role', 'dialog');
    this.node.setAttribute('aria-label', messages.status(_props.trans));
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this._props.nodes.stateChanged}>
        {() => (
          <UseSignal signal={this._props.money.stateChanged}>
            {() => <Status {...this._props} />}
          </UseSignal>
        )}
      </UseSignal>
    );
  }
}

/** The content of the pop-up; its first button has the focus. */
export function Status({ nodes, money, load, actions, trans }: IProps): JSX.Element {
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  const running = nodes.list?.nodes.filter(({ billing }) => billing) ?? [];
  const spend = money.parts.spend.dated?.data;
  return (
    <>
      <div className="jp-tpu-StatusPopup-rate">
        {spend ? formatRate(spend, trans) : spendMessages.spendingUnknown(trans)}
      </div>
      {running.length === 0 && <p className="jp-tpu-Muted">{messages.noNodeRuns(trans)}</p>}
      <ul>
        {running.map(node => (
          <NodeStatus key={node.name} node={node} money={money} load={load} trans={trans} />
        ))}
      </ul>
      {spend && <Budgets budgets={spend.budgets} trans={trans} />}
      <div className="jp-tpu-Actions">
        <Button ref={first} kind="accept" onClick={actions.onOpenPanel}>
          {messages.openPanel(trans)}
        </Button>
        <Button onClick={actions.onCreate}>{messages.createNode(trans)}</Button>
        {running.length > 0 && (
          <Button onClick={actions.onStopAll}>{messages.stopEverything(trans)}</Button>
        )}
      </div>
    </>
  );
}

interface INodeProps extends Pick<IProps, 'money' | 'load' | 'trans'> {
  readonly node: INode;
}

function NodeStatus({ node, money, load, trans }: INodeProps): JSX.Element {
  const now_ms = useNow();
  const duty = useDuty(node, load);
  const { dated } = money.parts.autostops;
  const isLeaving = node.state === 'STOPPING' || node.state === 'DELETING';
  const autostop = dated?.data.nodes.find(({ name }) => name === node.name);
  const cut = cutOf(money.cuts, node.name, autostop, now_ms / 1000);
  const line = cut && describe({ link: cut, offlineSince_ms: null }, now_ms, trans);
  const facts = [
    nodePrice(node, trans),
    duty === null ? '' : messages.chips(Math.round(duty), trans)
  ];
  return (
    <li>
      <div className="jp-tpu-StatusPopup-node">
        <strong title={node.node_id}>{node.node_id}</strong>
        <span className={line ? 'jp-tpu-Health' : 'jp-tpu-Muted'}>
          {line ? line.title : stateText(node, trans)}
        </span>
      </div>
      <div className="jp-tpu-Muted">{facts.filter(Boolean).join(' · ')}</div>
      {dated && autostop && !isLeaving && (
        <div className="jp-tpu-Muted">
          {autostopSummary(autostop, serverNow(dated, now_ms), trans)}
        </div>
      )}
    </li>
  );
}

function stateText({ state }: INode, trans: TranslationBundle): string {
  return state === 'READY' ? messages.connected(trans) : stateName(state, trans);
}

/** The mean duty of the node's chips in percent; null while unknown. */
function useDuty(node: INode, load: ILoadModel | null): number | null {
  const own = node.state === 'READY' ? load?.of(node) : undefined;
  const [, update] = useReducer((turn: number) => turn + 1, 0);
  useEffect(() => {
    if (!own) {
      return;
    }
    const refresh = (): void => void (document.hidden || own.refresh().then(update));
    refresh();
    const timer = window.setInterval(refresh, INTERVAL_MS);
    return () => window.clearInterval(timer);
  }, [own]);
  const dated = own?.part.dated;
  return dated ? totalsOf(samplesOf(dated.data)).duty_percent : null;
}

function Budgets({
  budgets,
  trans
}: {
  budgets: readonly IBudget[];
  trans: TranslationBundle;
}): JSX.Element {
  if (budgets.length === 0) {
    return <p className="jp-tpu-Muted">{messages.noBudget(trans)}</p>;
  }
  return (
    <>
      {budgets.map(budget => (
        <div key={budget.name} className="jp-tpu-Budget">
          <div>{budgetUse(budget, trans)}</div>
          <Meter
            label={spendMessages.budget(budget.name, trans)}
            fraction={budget.fraction ?? 0}
            text={budgetUse(budget, trans)}
            level={levelOf(budget)}
          />
        </div>
      ))}
    </>
  );
}
