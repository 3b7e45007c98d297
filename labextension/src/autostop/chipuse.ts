/** Whether a node's chips are in use, according to its auto-stop data; pure except for the model. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IClosedSummary } from '../load/renderer';
import { chipUse } from '../messages/load';
import { IMoneyModel } from '../money/tokens';

/** A summary for a section's title, shown only while the data is fresh. It needs no additional request. */
export function chipUseSummary(model: IMoneyModel, trans: TranslationBundle): IClosedSummary {
  return {
    changed: model.stateChanged,
    of: ({ name }) => {
      const { dated, problem } = model.parts.autostops;
      const autostop = problem ? undefined : dated?.data.nodes.find(one => one.name === name);
      const chips = autostop?.sources.find(({ source }) => source === 'accelerator');
      return chips && chipUse(chips, trans);
    }
  };
}
