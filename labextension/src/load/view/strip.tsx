import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';
import { INode, ISample } from '../../api.generated';
import { useIsVisible } from '../../components/visibility';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { formatTotals } from '../../messages/load';
import { INodeLoad } from '../tokens';
import { known, percentOf, samplesOf, totalsOf } from '../totals';
import { formatPercent } from '../values';
import { Spark } from './bar';

/** Width of the strip in a closed card, in pixels; eight chips fit at full width. */
const ROOM = 40;
/** The most chips drawn before anything was measured. */
const MOST_UNKNOWN = 4;

interface IProps {
  node: INode;
  load: INodeLoad;
  trans: TranslationBundle;
}

/**
 * A bar for the duty of each chip, in a closed card. Its values are requested only while it is visible, at a longer
 * interval.
 */
export function ChipStrip({ node, load, trans }: IProps): JSX.Element {
  const element = useRef<HTMLSpanElement>(null);
  const isVisible = useIsVisible(element, false);
  useEffect(() => {
    const glance = isVisible ? load.glance() : null;
    return () => glance?.dispose();
  }, [load, isVisible]);
  return (
    <span ref={element} className="jp-tpu-Strip">
      <UseSignal signal={load.changed}>{() => <Strip {...{ node, load, trans }} />}</UseSignal>
    </span>
  );
}

function Strip({ node, load, trans }: IProps): JSX.Element {
  const samples = freshSamples(load);
  const totals = totalsOf(samples);
  const chips = node.accelerator?.chips ?? 1;
  // no process uses the chips, so nothing is measured: they are idle
  const duties = totals.isIdle ? Array<number>(chips).fill(0) : samples.flatMap(dutiesOf);
  const isKnown = duties.length > 0;
  const text = samples.length > 0 ? formatTotals(totals, trans) : common.unknown(trans);
  const unknown = Array<null>(Math.min(MOST_UNKNOWN, chips)).fill(null);
  const label = common.labelled(messages.loadOf(node.node_id, trans), text, trans);
  return (
    <span
      className={isKnown ? undefined : 'jp-mod-unknown'}
      role="img"
      aria-label={label}
      title={label}
    >
      <Spark kind="duty" percents={isKnown ? duties : unknown} room={ROOM} />
    </span>
  );
}

/** The duty and memory of each chip, in an open card, as often as the agents measure. */
export function ChipRows({ node, load, trans }: IProps): JSX.Element {
  const workers = node.workers.length;
  useEffect(() => {
    const subscription = load.subscribe(workers);
    return () => subscription.dispose();
  }, [load, workers]);
  return <UseSignal signal={load.changed}>{() => <Rows {...{ node, load, trans }} />}</UseSignal>;
}

function Rows({ node, load, trans }: IProps): JSX.Element | null {
  const samples = freshSamples(load);
  const totals = totalsOf(samples);
  if (samples.length === 0 || totals.isIdle) {
    return null; // the section below states the reason
  }
  const hbm = percentOf(totals.hbm_used_bytes, totals.hbm_total_bytes);
  const rows = [
    {
      kind: 'duty',
      name: messages.duty(trans),
      percents: samples.flatMap(dutiesOf),
      total: totals.duty_percent
    },
    {
      kind: 'hbm',
      name: messages.fieldName('hbm_used_bytes', trans),
      percents: samples.flatMap(hbmOf),
      total: hbm
    }
  ] as const;
  return (
    <dl className="jp-tpu-ChipRows" aria-label={messages.chipsOf(node.node_id, trans)}>
      {rows.map(({ kind, name, percents, total }) => (
        <React.Fragment key={kind}>
          <dt>{name}</dt>
          <dd
            title={messages.eachChip(
              percents.map(percent => formatKnown(percent, trans)),
              trans
            )}
          >
            <Spark kind={kind} percents={percents} />
            <span className="jp-tpu-Load-text">{formatKnown(total, trans)}</span>
          </dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

function formatKnown(percent: number | null, trans: TranslationBundle): string {
  return percent === null ? common.unknown(trans) : formatPercent(percent);
}

/** The samples that are recent enough to draw; the strip shows no age. */
function freshSamples({ part }: INodeLoad): readonly ISample[] {
  return part.dated && !part.problem ? samplesOf(part.dated.data) : [];
}

function dutiesOf({ chips }: ISample): (number | null)[] {
  return chips.map(({ duty_percent }) => duty_percent);
}

/** The used share of each chip's memory in percent, over its cores; null where unknown. */
function hbmOf({ cores }: ISample): (number | null)[] {
  const chips = [...new Set(cores.map(({ chip }) => chip))];
  return chips.map(chip => {
    const own = cores.filter(core => core.chip === chip);
    const sum = (values: (number | null)[]): number | null =>
      known(values).length > 0 ? known(values).reduce((left, right) => left + right, 0) : null;
    return percentOf(
      sum(own.map(core => core.hbm_used_bytes)),
      sum(own.map(core => core.hbm_total_bytes))
    );
  });
}
