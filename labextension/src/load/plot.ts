/** The only importer of uPlot, which comes into the page with the first chart. */

import { ISeries, Line, LINES } from './series';

/** A chart that is drawn. */
export interface IPlot {
  /** Draw the last so many seconds. */
  show(series: ISeries, span_s: number): void;
  dispose(): void;
}

/** Draws a chart into an element. */
export type Plotter = (host: HTMLElement) => Promise<IPlot>;

const HEIGHT = 110;
const LEAST_WIDTH = 120;
/** What tells the lines apart besides their colours. */
export const DASHES: { readonly [line in Line]: readonly number[] } = {
  duty: [],
  busiest: [6, 3],
  hbm: [2, 2],
  cpu: [8, 3, 2, 3]
};
/** Colours of the theme, the legend's and the lines'. */
export const COLOURS: { readonly [line in Line]: string } = {
  duty: '--jp-brand-color1',
  busiest: '--jp-error-color1',
  hbm: '--jp-success-color1',
  cpu: '--jp-ui-font-color2'
};
const TEXT = '--jp-ui-font-color2';
const GRID = '--jp-border-color2';

export const plot: Plotter = async host => {
  const { default: UPlot } = await import('uplot');
  const colours = new Colours(host);
  const text = (): string => colours.get(TEXT);
  const grid = { stroke: () => colours.get(GRID), width: 1 };
  const axis = { stroke: text, grid, ticks: grid, font: '11px system-ui, sans-serif' };
  const chart = new UPlot(
    {
      width: widthOf(host),
      height: HEIGHT,
      cursor: { show: false },
      legend: { show: false },
      scales: { y: { range: [0, 100] } },
      axes: [
        { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map(clockTime) },
        { ...axis, size: 34, space: 24, values: (_, ticks) => ticks.map(tick => `${tick}`) }
      ],
      series: [
        {},
        ...LINES.map(line => ({
          stroke: () => colours.get(COLOURS[line]),
          dash: [...DASHES[line]],
          width: 1.5,
          points: { show: false }
        }))
      ]
    },
    asData(null),
    host
  );
  const resizes = new ResizeObserver(() => chart.setSize({ width: widthOf(host), height: HEIGHT }));
  resizes.observe(host);
  return {
    show: (series, span_s) => {
      colours.forget(); // the theme may have changed
      const end = series.at[series.at.length - 1] ?? Date.now() / 1000;
      chart.setData(asData(series), false);
      chart.setScale('x', { min: end - span_s, max: end });
    },
    dispose: () => {
      resizes.disconnect();
      chart.destroy();
    }
  };
};

function asData(series: ISeries | null): [number[], ...(number | null)[][]] {
  return [[...(series?.at ?? [])], ...LINES.map(line => [...(series?.[line] ?? [])])];
}

function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { timeStyle: 'short' });
}

function widthOf(host: HTMLElement): number {
  return Math.max(LEAST_WIDTH, Math.floor(host.clientWidth));
}

/** What the theme's variables mean where the chart is; a canvas knows no variables. */
class Colours {
  constructor(private readonly _host: HTMLElement) {}

  get(name: string): string {
    this._style ??= getComputedStyle(this._host);
    return this._style.getPropertyValue(name).trim() || 'currentcolor';
  }

  forget(): void {
    this._style = null;
  }

  private _style: CSSStyleDeclaration | null = null;
}
