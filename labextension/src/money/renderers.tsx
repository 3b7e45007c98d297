import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { INode, ISpend } from '../api.generated';
import { IActivityHistory } from '../autostop/activity';
import { AutostopRow, LostConnection } from '../autostop/autostoprow';
import { CapacitySection } from '../capacity/capacitysection';
import { CleanupSection } from '../cleanup/cleanupsection';
import { ICreateActions } from '../create/draft';
import { GrantsSection } from '../grants/grantssection';
import { QuotaSection } from '../quota/quotasection';
import { ActivityLogSection } from '../spend/activitylog';
import { IHistoryPlots, SpendHistory } from '../spend/history';
import { SpendingFault, SpendSection } from '../spend/spendsection';
import { INodeKey } from '../tokens';
import { IMoneyActions, RevealedContext } from './section';
import { IMoneyModel } from './tokens';

/** What the panel shows of money: below its list, in the row of each node, and in the form. */
export interface IMoneyRenderers {
  readonly sections: () => JSX.Element;
  readonly autostopRow: (node: INode) => JSX.Element;
  readonly createActions: ICreateActions;
}

/** The charts of these renderers. */
export interface IPlots extends IHistoryPlots {
  readonly idle: IActivityHistory['plot'];
}

/** Render each part on its own, so that the rows of the panel are not rendered again. */
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
  const history = ({ total, budgets }: ISpend): JSX.Element | null =>
    plots && total.ready_s > 0 ? (
      <SpendHistory history={model.history} budgets={budgets} plots={plots} trans={trans} />
    ) : null;
  return {
    createActions,
    sections: () => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <RevealedContext.Provider value={model.revealed}>
            <div className="jp-tpu-Sections">
              <SpendingFault part={model.parts.spend} trans={trans} />
              <SpendSection {...{ model, actions, history, trans }} />
              <GrantsSection {...{ model, actions, trans }} />
              <QuotaSection {...{ model, actions, trans }} />
              <CapacitySection {...{ model, actions, trans }} />
              <CleanupSection {...{ model, actions, trans }} />
              <ActivityLogSection {...{ model, actions, trans }} />
            </div>
          </RevealedContext.Provider>
        )}
      </UseSignal>
    ),
    autostopRow: node => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <>
            <LostConnection
              node={node}
              cuts={model.cuts}
              autostops={model.parts.autostops}
              trans={trans}
            />
            <AutostopRow
              node={node}
              parts={model.parts}
              actions={actions}
              history={lastHour}
              trans={trans}
            />
          </>
        )}
      </UseSignal>
    )
  };
}
