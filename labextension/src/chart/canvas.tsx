import React, { useEffect, useRef, useState } from 'react';
import { IPlot, Plotter } from './drawing';

interface IProps<T> {
  /** The data; the chart is updated when it changes. */
  what: T;
  /** The same information as text. */
  label: string;
  plot: Plotter<T>;
}

/** A chart, which appears when its library has loaded. */
export function Canvas<T>({ what, label, plot }: IProps<T>): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [drawn, setDrawn] = useState<IPlot<T> | null>(null);
  useEffect(() => {
    let isGone = false;
    let own: IPlot<T> | null = null;
    void plot(host.current as HTMLDivElement).then(made => {
      own = made;
      return isGone ? made.dispose() : setDrawn(made);
    });
    return () => {
      isGone = true;
      own?.dispose();
    };
  }, [plot]);
  useEffect(() => drawn?.show(what), [drawn, what]);
  return <div ref={host} className="jp-tpu-History-plot" role="img" aria-label={label} />;
}

interface IKeyProps {
  children: React.ReactNode;
  /** The sign next to the text: 20 by 10 pixels. */
  sign: React.ReactNode;
}

/** An entry of a chart's legend. */
export function Key({ children, sign }: IKeyProps): JSX.Element {
  return (
    <span className="jp-tpu-History-key">
      <svg width="20" height="10" aria-hidden="true">
        {sign}
      </svg>
      {children}
    </span>
  );
}

interface ILineProps {
  /** A CSS variable of the theme. */
  colour: string;
  dash: readonly number[];
}

/** The sign of a line in the legend, with the line's dashes and colour. */
export function LineSign({ colour, dash }: ILineProps): JSX.Element {
  return (
    <line
      x1="0"
      y1="5"
      x2="20"
      y2="5"
      style={{ stroke: `var(${colour})` }}
      strokeDasharray={dash.join(' ')}
      strokeWidth="2"
    />
  );
}
