import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { INode, IRecovery, ISpend } from '../api.generated';
import { IActivityHistory } from '../autostop/activity';
import { AutostopAlerts, AutostopBrief } from '../autostop/autostopbrief';
import { AutostopRow } from '../autostop/autostoprow';
import { CapacitySection } from '../capacity/capacitysection';
import { CleanupSection } from '../cleanup/cleanupsection';
import { ICreateActions } from '../create/draft';
import { GrantsSection } from '../grants/grantssection';
import { recreating } from '../messages/panel';
import { formatRate } from '../messages/spend';
import { QuotaSection } from '../quota/quotasection';
import { ActivityLogSection } from '../spend/activitylog';
import { IHistoryPlots, SpendHistory } from '../spend/history';
import { SpendingFault, SpendSection } from '../spend/spendsection';
import { INodeKey } from '../tokens';
import { IMoneyActions, RevealedContext } from './section';
import { IMoneyModel } from './tokens';

/** The views of money data in the panel: below the list, in each node's card, and in the form. */
export interface IMoneyRenderers {
  readonly sections: (options?: ISectionsOptions) => JSX.Element;
  /** When the node stops, in the second line of its card. */
  readonly autostopBrief: (node: INode, isStarting?: boolean) => JSX.Element;
  /** A line on the card of a node that auto-recovery is recreating; `name` is its full name. */
  readonly recoveryBrief: (name: string) => JSX.Element;
  /** The alerts that a closed card must show as well. */
  readonly autostopAlerts: (node: INode) => JSX.Element;
  /** The node's auto-stop in an open card; the form of the rules opens when `changeTurn` increases. */
  readonly autostopRow: (node: INode, changeTurn?: number) => JSX.Element;
  /** The hourly cost of all nodes; `otherwise` until the ledger has responded. */
  readonly rate: (otherwise: string) => JSX.Element;
  readonly createActions: ICreateActions;
}

export interface ISectionsOptions {
  /** Whether the sections stay hidden until they have content. */
  readonly isQuiet?: boolean;
  readonly isEmulated?: boolean;
  /** Nodes that a new budget may end at once. */
  readonly nodes?: readonly INode[];
}

/** The charts of these renderers. */
export interface IPlots extends IHistoryPlots {
  readonly idle: IActivityHistory['plot'];
}

/** Render each part on its own, so that the panel's cards are not rendered again. */
export function moneyRenderers(
  model: IMoneyModel,
  actions: IMoneyActions,
  createActions: ICreateActions,
  trans: TranslationBundle,
  plots?: IPlots
): IMoneyRenderers {
  const lastHour = plots && {
    plot: plots.idle,
    fetch: async (key: INodeKey) => (model.isWatched ? model.client.autostopHistory(key) : null)
  };
  const history = ({ total, budgets }: ISpend, isEmulated: boolean): JSX.Element | null =>
    plots && total.ready_s > 0 ? (
      <SpendHistory history={model.history} {...{ budgets, plots, isEmulated, trans }} />
    ) : null;
  return {
    createActions,
    rate: otherwise => (
      <UseSignal signal={model.stateChanged}>
        {() => {
          const { dated } = model.parts.spend;
          return <>{dated ? formatRate(dated.data, trans) : otherwise}</>;
        }}
      </UseSignal>
    ),
    sections: ({ isQuiet = false, isEmulated = false, nodes = [] } = {}) => (
      <UseSignal signal={model.stateChanged}>
        {() =>
          isQuiet && isEmpty(model) ? null : (
            <RevealedContext.Provider value={model.revealed}>
              <div className="jp-tpu-Sections">
                <SpendingFault part={model.parts.spend} trans={trans} />
                {model.isShown('spend') && (
                  <SpendSection {...{ model, actions, isEmulated, nodes, history, trans }} />
                )}
                {model.isShown('grants') && <GrantsSection {...{ model, actions, trans }} />}
                {model.isShown('quota') && <QuotaSection {...{ model, actions, trans }} />}
                {model.isShown('capacity') && <CapacitySection {...{ model, actions, trans }} />}
                {model.isShown('cleanup') && <CleanupSection {...{ model, actions, trans }} />}
                {model.isShown('audit') && <ActivityLogSection {...{ model, actions, trans }} />}
              </div>
            </RevealedContext.Provider>
          )
        }
      </UseSignal>
    ),
    autostopBrief: (node, isStarting) => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <AutostopBrief
            autostops={model.parts.autostops}
            {...{ node, isStarting, actions, trans }}
          />
        )}
      </UseSignal>
    ),
    recoveryBrief: name => (
      <UseSignal signal={model.stateChanged}>
        {() =>
          isRecreated(model, name) && (
            <div className="jp-tpu-Muted" role="status">
              {recreating(trans)}
            </div>
          )
        }
      </UseSignal>
    ),
    autostopAlerts: node => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <AutostopAlerts
            node={node}
            autostops={model.parts.autostops}
            cuts={model.cuts}
            {...{ actions, trans }}
          />
        )}
      </UseSignal>
    ),
    autostopRow: (node, changeTurn) => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <AutostopRow
            node={node}
            parts={model.parts}
            history={lastHour}
            {...{ actions, changeTurn, trans }}
          />
        )}
      </UseSignal>
    )
  };
}

function isRecreated({ parts }: IMoneyModel, name: string): boolean {
  const recovery = parts.recovery.dated?.data.choices.find(one => one.node_name === name);
  return recovery !== undefined && RECREATING.has(recovery.state);
}

const RECREATING: ReadonlySet<IRecovery['state']> = new Set(['clearing', 'waiting', 'making']);

/** Whether the sections have nothing to show; a section that was opened on request always has content. */
function isEmpty({ parts, revealed }: IMoneyModel): boolean {
  const spend = parts.spend.dated?.data;
  const searches = parts.searches.dated?.data.searches ?? [];
  const hasSpend = spend !== undefined && (spend.total.ready_s > 0 || spend.budgets.length > 0);
  return !hasSpend && searches.length === 0 && revealed === null;
}
