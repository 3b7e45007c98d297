import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ICoverage, ICoverageAutostop, IOffer, Provisioning } from '../api.generated';
import { priceOf } from '../format';
import * as messages from '../messages/create';
import { forgottenCost, grantedPrice, priceTerms } from '../messages/create';
import { formatPrice } from '../messages/units';
import { IAnswer } from './answer';

interface IProps {
  offer: IOffer;
  provisioning: Provisioning;
  coverage: IAnswer<ICoverage>;
  /** Whether no node can be created anyway, so that an unknown cost is not worth mentioning. */
  isBlocked: boolean;
  /** The user's idle timeout for new nodes, in seconds; 0 for the server's default. */
  idleDefault_s: number;
  trans: TranslationBundle;
}

/** One sentence with the cost of a choice, when auto-stop ends it, and the most it can cost if it is forgotten. */
export function Summary(props: IProps): JSX.Element {
  const { coverage, isBlocked, trans } = props;
  const { data, problem } = coverage;
  return (
    <div className="jp-tpu-Price" role="status" aria-label={messages.choiceSummary(trans)}>
      <div className={`jp-tpu-Coverage jp-mod-${data?.covered ? 'ok' : 'near'}`}>
        <Cost {...props} /> {data && <Forgotten {...props} coverage={data} />}
      </div>
      {data?.detail && <div className="jp-tpu-Muted">{data.detail}</div>}
      {problem && !isBlocked && (
        <div className="jp-tpu-Muted">
          {messages.notKnown(messages.billing(trans), problem.message || problem.code, trans)}
        </div>
      )}
    </div>
  );
}

function Cost({ offer, provisioning, coverage, trans }: IProps): JSX.Element {
  const price = priceOf(offer, provisioning);
  const { data } = coverage;
  if (provisioning === 'reserved') {
    return (
      <strong title={messages.reservationPrice(trans)}>
        {messages.billedWithReservation(trans)}
      </strong>
    );
  }
  return (
    <>
      <strong>
        {data?.covered
          ? grantedPrice(data, formatPrice(price, trans), trans)
          : formatPrice(price, trans)}
      </strong>
      {price && <span> {priceTerms(provisioning, trans)}</span>}
    </>
  );
}

function Forgotten({
  offer,
  provisioning,
  coverage,
  idleDefault_s,
  trans
}: Omit<IProps, 'coverage' | 'isBlocked'> & { coverage: ICoverage }): JSX.Element {
  const price = coverage.covered ? null : priceOf(offer, provisioning);
  return (
    <span title={messages.idleMeans(trans)}>
      {forgottenCost(
        withIdle(coverage.autostop, idleDefault_s),
        price?.usd_per_hour ?? null,
        trans
      )}
    </span>
  );
}

/** The auto-stop rules after the user's settings are applied, which happens once the node exists. */
function withIdle(rules: ICoverageAutostop, idle_s: number): ICoverageAutostop {
  const { idle_at_most_s } = rules;
  return idle_s === 0
    ? rules
    : {
        ...rules,
        idle_after_s: idle_s,
        idle_at_most_s: idle_at_most_s && Math.max(idle_at_most_s, idle_s)
      };
}
