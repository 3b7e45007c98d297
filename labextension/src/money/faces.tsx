import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import { INode, INodeKey } from '../tokens';
import { IGettingActs } from './choice/getting';
import { IIdlePast } from './past/idle';
import { IPastPlots, SpendPast } from './past/view';
import { ISpend } from './records';
import { ActivitySection } from './sections/activity';
import { GettingSection } from './sections/getting';
import { GrantsSection } from './sections/grants';
import { QuotaSection } from './sections/quota';
import { IMoneyActs } from './sections/section';
import { SpendingFault, SpendSection } from './sections/spend';
import { SweepSection } from './sections/sweep';
import { TimeLeft } from './sections/timeleft';
import { IMoneyModel } from './tokens';

/** What the panel shows of money: below its list, in the row of each node, and in its form. */
export interface IMoneyFaces {
  readonly sections: () => JSX.Element;
  readonly timeLeft: (node: INode) => JSX.Element;
  readonly getting: IGettingActs;
}

/** Draw all charts of these faces. */
export interface IPlots extends IPastPlots {
  readonly idle: IIdlePast['plot'];
}

/** Each part is drawn anew by itself, so that the rows of the panel are not. */
export function facesOf(
  model: IMoneyModel,
  acts: IMoneyActs,
  getting: IGettingActs,
  trans: TranslationBundle,
  plots?: IPlots
): IMoneyFaces {
  const lastHour = plots && {
    plot: plots.idle,
    ask: async (key: INodeKey) => (model.isWatched ? model.client.brakesPast(key) : null)
  };
  const past = ({ total, budgets }: ISpend): JSX.Element | null =>
    plots && total.ready_s > 0 ? (
      <SpendPast past={model.past} budgets={budgets} plots={plots} trans={trans} />
    ) : null;
  return {
    getting,
    sections: () => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <div className="jp-tpu-Sections">
            <SpendingFault part={model.parts.spend} trans={trans} />
            <SpendSection {...{ model, acts, past, trans }} />
            <GrantsSection {...{ model, acts, trans }} />
            <QuotaSection {...{ model, acts, trans }} />
            <GettingSection {...{ model, acts, trans }} />
            <SweepSection {...{ model, acts, trans }} />
            <ActivitySection {...{ model, acts, trans }} />
          </div>
        )}
      </UseSignal>
    ),
    timeLeft: node => (
      <UseSignal signal={model.stateChanged}>
        {() => (
          <TimeLeft node={node} parts={model.parts} acts={acts} past={lastHour} trans={trans} />
        )}
      </UseSignal>
    )
  };
}
