import { TranslationBundle } from '@jupyterlab/translation';
import React, { useMemo, useState } from 'react';
import { Canvas, Key, LineSign } from '../../chart/canvas';
import { Plotter } from '../../chart/drawing';
import { Button } from '../../components/button';
import { formatSpan } from '../../money/words';
import { COLOURS, DASHES, IPast } from '../plot';
import { ISeries, LINES, rangeOf, tail } from '../series';
import { formatPercent, lineName } from '../words';

/** Spans that can be looked at; seconds. */
const SPANS = [300, 900, 3600] as const;

interface IProps {
  series: ISeries;
  /** Of what it is. */
  name: string;
  plot: Plotter<IPast>;
  trans: TranslationBundle;
}

/** The past as a chart, with the same in words for those who cannot see it. */
export function History({ series, name, plot, trans }: IProps): JSX.Element {
  const [span_s, setSpan] = useState<number>(SPANS[0]);
  const shown = useMemo(() => tail(series, span_s), [series, span_s]);
  const lines = LINES.filter(line => rangeOf(shown[line]) !== null);
  const title = trans.__('Load of %1 in the last %2, in percent', name, formatSpan(span_s, trans));
  return (
    <figure className="jp-tpu-History" aria-label={title}>
      <div className="jp-tpu-Actions" role="group" aria-label={trans.__('Time that is shown')}>
        {SPANS.map(each => (
          <Button key={each} aria-pressed={each === span_s} onClick={() => setSpan(each)}>
            {formatSpan(each, trans)}
          </Button>
        ))}
      </div>
      <Canvas
        what={useMemo(() => ({ series: shown, span_s }), [shown, span_s])}
        label={trans.__('%1. %2', title, inWords(shown, trans))}
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

function inWords(series: ISeries, trans: TranslationBundle): string {
  const sentences = LINES.flatMap(line => {
    const range = rangeOf(series[line]);
    const last = range?.last ?? null;
    return range
      ? [
          trans.__(
            '%1: now %2, between %3 and %4.',
            lineName(line, trans),
            last === null ? trans.__('unknown') : formatPercent(last),
            formatPercent(range.least),
            formatPercent(range.most)
          )
        ]
      : [];
  });
  return sentences.join(' ') || trans.__('Nothing was measured.');
}
