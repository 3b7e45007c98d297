/** Whether the chips of a node are in use, by what the brakes are asked anyway; pure but for the model. */

import { TranslationBundle } from '@jupyterlab/translation';
import { IGlance } from '../load/faces';
import { chipUse } from '../messages/load';
import { IMoneyModel } from './tokens';

/** Said only while it is new: the brakes are asked again and again while the panel is in sight. */
export function glanceOf(model: IMoneyModel, trans: TranslationBundle): IGlance {
  return {
    changed: model.stateChanged,
    of: ({ name }) => {
      const { dated, problem } = model.parts.brakes;
      const brake = problem ? undefined : dated?.data.nodes.find(one => one.name === name);
      const chips = brake?.sources.find(({ source }) => source === 'accelerator');
      return chips && chipUse(chips, trans);
    }
  };
}
