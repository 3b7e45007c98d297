import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef, useState } from 'react';
import { Button } from '../../components/button';
import { formatSpan } from '../../money/words';
import { COLOURS, DASHES, IPlot, Plotter } from '../plot';
import { ISeries, Line, LINES, rangeOf, tail } from '../series';
import { formatPercent, lineName } from '../words';

/** Spans that can be looked at; seconds. */
const SPANS = [300, 900, 3600] as const;

interface IProps {
  series: ISeries;
  /** Of what it is. */
  name: string;
  plot: Plotter;
  trans: TranslationBundle;
}

/** The past as a chart, with the same in words for those who cannot see it. */
export function History({ series, name, plot, trans }: IProps): JSX.Element {
  const [span_s, setSpan] = useState<number>(SPANS[0]);
  const shown = tail(series, span_s);
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
        series={shown}
        span_s={span_s}
        label={trans.__('%1. %2', title, inWords(shown, trans))}
        plot={plot}
      />
      <figcaption>
        {lines.map(line => (
          <Key key={line} line={line} trans={trans} />
        ))}
      </figcaption>
    </figure>
  );
}

interface ICanvasProps {
  series: ISeries;
  span_s: number;
  label: string;
  plot: Plotter;
}

function Canvas({ series, span_s, label, plot }: ICanvasProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [drawn, setDrawn] = useState<IPlot | null>(null);
  useEffect(() => {
    let isGone = false;
    let own: IPlot | null = null;
    void plot(host.current as HTMLDivElement).then(made => {
      own = made;
      return isGone ? made.dispose() : setDrawn(made);
    });
    return () => {
      isGone = true;
      own?.dispose();
    };
  }, [plot]);
  useEffect(() => drawn?.show(series, span_s), [drawn, series, span_s]);
  return <div ref={host} className="jp-tpu-History-plot" role="img" aria-label={label} />;
}

/** Which line is what: by its dashes as well as by its colour. */
function Key({ line, trans }: { line: Line; trans: TranslationBundle }): JSX.Element {
  return (
    <span className="jp-tpu-History-key">
      <svg width="20" height="6" aria-hidden="true">
        <line
          x1="0"
          y1="3"
          x2="20"
          y2="3"
          style={{ stroke: `var(${COLOURS[line]})` }}
          strokeDasharray={DASHES[line].join(' ')}
          strokeWidth="2"
        />
      </svg>
      {lineName(line, trans)}
    </span>
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
