/** The only module that imports uPlot, which is loaded with the first chart. */

import type UPlot from 'uplot';

/** A chart that is drawn. */
export interface IPlot<T> {
  show(what: T): void;
  dispose(): void;
}

/** Draws a chart into an element. */
export type Plotter<T> = (host: HTMLElement) => Promise<IPlot<T>>;

/** The design of a kind of chart. */
export interface IDesign<T> {
  readonly options: (drawing: IDrawing<T>) => Omit<UPlot.Options, 'width' | 'height'>;
  /** Put the data into the chart. */
  readonly fill: (chart: UPlot, what: T) => void;
  /** Data before anything is shown. */
  readonly empty: UPlot.AlignedData;
}

/** What a design may use. */
export interface IDrawing<T> {
  /** Null before anything is shown. */
  readonly shown: () => T | null;
  readonly library: typeof UPlot;
  readonly axis: UPlot.Axis;
  /** A colour of the theme by its variable: a canvas can't use variables. */
  readonly colour: (name: string) => string;
}

/** Pixels; low enough to leave room for the rows of a sidebar. */
const HEIGHT = 110;
/** Pixels; a narrower chart has no room next to its axis. */
const MIN_WIDTH = 120;
const TEXT = '--jp-ui-font-color2';
const GRID = '--jp-border-color2';
export const FONT = '11px system-ui, sans-serif';

/** A chart as wide as its element, in the colours of the theme. */
export function plotter<T>(design: IDesign<T>): Plotter<T> {
  return async host => {
    const { default: library } = await import('uplot');
    const style = getComputedStyle(host); // live: it has the values of the theme of the moment
    const colour = (name: string): string => style.getPropertyValue(name).trim() || 'currentcolor';
    const grid = { stroke: () => colour(GRID), width: 1 };
    const axis = { stroke: () => colour(TEXT), grid, ticks: grid, font: FONT };
    const size = (): { width: number; height: number } => ({
      width: widthOf(host),
      height: HEIGHT
    });
    let latest: T | null = null;
    const drawing = { shown: () => latest, library, axis, colour };
    const options = { ...design.options(drawing), ...size() };
    const chart = new library(options, design.empty, host);
    const resizes = new ResizeObserver(() => chart.setSize(size()));
    resizes.observe(host);
    const themes = new MutationObserver(() => chart.redraw());
    // set once the styles of a theme are loaded; until then a chart may be drawn without its colours
    themes.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
    return {
      show: what => {
        latest = what;
        design.fill(chart, what);
      },
      dispose: () => {
        resizes.disconnect();
        themes.disconnect();
        chart.destroy();
      }
    };
  };
}

/** Options that no chart of the panel uses. */
export const PLAIN_OPTIONS = { cursor: { show: false }, legend: { show: false } } as const;

function widthOf(host: HTMLElement): number {
  return Math.max(MIN_WIDTH, Math.floor(host.clientWidth));
}
