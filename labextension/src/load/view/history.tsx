import { TranslationBundle } from '@jupyterlab/translation';
import React, { useMemo, useState } from 'react';
import { Canvas, Key, LineSign } from '../../chart/canvas';
import { Plotter } from '../../chart/drawing';
import { Button } from '../../components/button';
import * as common from '../../messages/common';
import * as messages from '../../messages/load';
import { lineName } from '../../messages/load';
import { formatDuration } from '../../messages/units';
import { COLOURS, DASHES, IHistoryView } from '../plot';
import { ISeries, LINES, rangeOf, tail } from '../series';
import { formatPercent } from '../values';

/** The time ranges to choose from, in seconds; the agents keep one hour. */
const SPANS = [300, 900, 3600] as const;

interface IProps {
  series: ISeries;
  /** Name of the node. */
  name: string;
  plot: Plotter<IHistoryView>;
  trans: TranslationBundle;
}

/** The history as a chart, and as text for users who cannot see it. */
export function History({ series, name, plot, trans }: IProps): JSX.Element {
  const [span_s, setSpan] = useState<number>(SPANS[0]);
  const shown = useMemo(() => tail(series, span_s), [series, span_s]);
  const lines = LINES.filter(line => rangeOf(shown[line]) !== null);
  const title = messages.historyOf(name, formatDuration(span_s, trans), trans);
  return (
    <figure className="jp-tpu-History" aria-label={title}>
      <div className="jp-tpu-Actions" role="group" aria-label={common.timeRange(trans)}>
        {SPANS.map(each => (
          <Button key={each} aria-pressed={each === span_s} onClick={() => setSpan(each)}>
            {formatDuration(each, trans)}
          </Button>
        ))}
      </div>
      <Canvas
        what={useMemo(() => ({ series: shown, span_s }), [shown, span_s])}
        label={common.twoSentences(title, describeSeries(shown, trans), trans)}
        plot={plot}
      />
      <figcaption>
        {lines.map(line => (
          <Key key={line} sign={<LineSign colour={COLOURS[line]} dash={DASHES[line]} />}>
            {lineName(line, trans)}
          </Key>
        ))}
      </figcaption>
    </figure>
  );
}

function describeSeries(series: ISeries, trans: TranslationBundle): string {
  const sentences = LINES.flatMap(line => {
    const range = rangeOf(series[line]);
    const last = range?.last ?? null;
    return range
      ? [
          messages.lineSummary(
            lineName(line, trans),
            last === null ? common.unknown(trans) : formatPercent(last),
            formatPercent(range.min),
            formatPercent(range.max),
            trans
          )
        ]
      : [];
  });
  return sentences.join(' ') || messages.noHistory(trans);
}
