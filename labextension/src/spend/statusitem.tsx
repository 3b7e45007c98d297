/** Current rate and next auto-stop in the status bar; hidden while nothing is billed. */

import { TranslationBundle } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import React from 'react';
import { ISpend } from '../api.generated';
import { nextToStop } from '../autostop/rules';
import { useNow } from '../components/now';
import { autostopSummary } from '../messages/autostop';
import * as messages from '../messages/spend';
import { formatRate, shortRate } from '../messages/spend';
import { formatDuration } from '../messages/units';
import { cutOf } from '../money/connections';
import { serverNow } from '../money/model';
import { IMoneyModel } from '../money/tokens';
import { budgetErrors, isBilled } from './rates';

export class SpendStatus extends VDomRenderer<IMoneyModel> {
  /** @param _open shows the panel */
  constructor(
    model: IMoneyModel,
    private readonly _trans: TranslationBundle,
    private readonly _open: () => void
  ) {
    super(model);
    this.addClass('jp-tpu-MoneyStatus');
  }

  protected render(): JSX.Element | null {
    const { spend } = this.model.parts;
    return spend.dated && isBilled(spend.dated.data) ? (
      <Item spend={spend.dated.data} model={this.model} trans={this._trans} onOpen={this._open} />
    ) : null;
  }
}

interface IProps {
  spend: ISpend;
  model: Pick<IMoneyModel, 'parts' | 'cuts'>;
  trans: TranslationBundle;
  onOpen: () => void;
}

/** One button with both, which opens the panel. */
export function Item({ spend, model, trans, onOpen }: IProps): JSX.Element {
  const now_ms = useNow();
  const { dated } = model.parts.autostops;
  const autostops = dated?.data.nodes ?? [];
  const next = nextToStop(autostops);
  const now_s = dated ? serverNow(dated, now_ms) : now_ms / 1000;
  const faults = budgetErrors(spend);
  const cut = spend.nodes
    .filter(({ is_open }) => is_open)
    .find(({ name }) =>
      cutOf(
        model.cuts,
        name,
        autostops.find(one => one.name === name),
        now_ms / 1000
      )
    );
  const disconnected = cut ? messages.disconnected(cut.node_id, trans) : '';
  const isWarning =
    cut !== undefined ||
    faults.length > 0 ||
    autostops.some(({ is_warning, reminder }) => is_warning || reminder !== null);
  const end =
    next && next.ends_at !== null
      ? messages.endsIn(next.node_id, formatDuration(next.ends_at - now_s, trans), trans)
      : '';
  const billed = autostops.find(({ reminder }) => reminder !== null);
  const reminded =
    billed?.reminder && !end
      ? messages.noActionFor(
          billed.node_id,
          formatDuration(billed.reminder.days * 86400, trans),
          trans
        )
      : '';
  const title = [
    messages.tooltip(formatRate(spend, trans), trans),
    ...autostops.flatMap(({ reminder }) => (reminder ? [reminder.text] : [])),
    next && `${next.node_id}: ${autostopSummary(next, now_s, trans)}`,
    ...faults,
    model.parts.spend.problem && messages.outOfDate(trans)
  ];
  return (
    <button
      type="button"
      className={isWarning ? 'jp-mod-warning' : undefined}
      title={title.filter(Boolean).join('\n')}
      onClick={onOpen}
    >
      {[shortRate(spend, trans), disconnected, end, reminded].filter(Boolean).join(' · ')}
    </button>
  );
}
