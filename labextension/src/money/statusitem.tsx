/** What runs up costs and what ends next, in the status bar; nothing where nothing is billed. */

import { TranslationBundle } from '@jupyterlab/translation';
import { VDomRenderer } from '@jupyterlab/ui-components';
import React from 'react';
import { useNow } from '../components/now';
import { serverNow } from './model';
import { IMoneyModel } from './tokens';
import {
  faultsOf,
  formatEnd,
  formatRate,
  formatSpan,
  isBilled,
  knownRate,
  nearestEnd
} from './words';
import { formatUsd } from '../format';
import { ISpend } from './records';

export class MoneyStatus extends VDomRenderer<IMoneyModel> {
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
  model: Pick<IMoneyModel, 'parts'>;
  trans: TranslationBundle;
  onOpen: () => void;
}

/** One button with both, which opens the panel. */
export function Item({ spend, model, trans, onOpen }: IProps): JSX.Element {
  const now_ms = useNow();
  const { dated } = model.parts.brakes;
  const brakes = dated?.data.nodes ?? [];
  const next = nearestEnd(brakes);
  const now_s = dated ? serverNow(dated, now_ms) : now_ms / 1000;
  const faults = faultsOf(spend);
  const isWarning =
    faults.length > 0 || brakes.some(({ is_warning, reminder }) => is_warning || reminder !== null);
  const end =
    next && next.ends_at !== null
      ? trans.__('%1 ends in %2', next.node_id, formatSpan(next.ends_at - now_s, trans))
      : '';
  const billed = brakes.find(({ reminder }) => reminder !== null);
  const reminded =
    billed?.reminder && !end
      ? trans.__(
          '%1: no action for %2',
          billed.node_id,
          formatSpan(billed.reminder.days * 86400, trans)
        )
      : '';
  const title = [
    trans.__('TPU: %1', formatRate(spend, trans)),
    ...brakes.flatMap(({ reminder }) => (reminder ? [reminder.text] : [])),
    next && `${next.node_id}: ${formatEnd(next, now_s, trans)}`,
    ...faults,
    model.parts.spend.problem && trans.__('This is old: the server does not answer.')
  ];
  return (
    <button
      type="button"
      className={isWarning ? 'jp-mod-warning' : undefined}
      title={title.filter(Boolean).join('\n')}
      onClick={onOpen}
    >
      {[shortRate(spend, trans), end, reminded].filter(Boolean).join(' · ')}
    </button>
  );
}

function shortRate(spend: ISpend, trans: TranslationBundle): string {
  if (spend.usd_per_hour !== null) {
    return trans.__('TPU %1/h', formatUsd(spend.usd_per_hour));
  }
  const known = knownRate(spend);
  return known > 0 ? trans.__('TPU ≥ %1/h', formatUsd(known)) : trans.__('TPU price unknown');
}
