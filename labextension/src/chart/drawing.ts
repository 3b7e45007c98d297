/** Draw charts with uPlot, which is loaded with the first chart. No other module imports it. */

import type UPlot from 'uplot';

/** A drawn chart. */
export interface IPlot<T> {
  show(what: T): void;
  dispose(): void;
}

/** A function that draws a chart into an element. */
export type Plotter<T> = (host: HTMLElement) => Promise<IPlot<T>>;

/** The design of a type of chart. */
export interface IDesign<T> {
  readonly options: (drawing: IDrawing<T>) => Omit<UPlot.Options, 'width' | 'height'>;
  /** Passes the data to the chart. */
  readonly fill: (chart: UPlot, what: T) => void;
  /** The data of an empty chart. */
  readonly empty: UPlot.AlignedData;
}

/** The values that a design can use. */
export interface IDrawing<T> {
  /** Returns the shown data, or null if there is none yet. */
  readonly shown: () => T | null;
  readonly library: typeof UPlot;
  readonly axis: UPlot.Axis;
  /** Returns a colour of the theme, given its CSS variable, because a canvas can't use variables. */
  readonly colour: (name: string) => string;
}

/** Height in pixels; small enough for a sidebar. */
const HEIGHT = 110;
/** Minimum width in pixels, so that there is room next to the axis. */
const MIN_WIDTH = 120;
const TEXT = '--jp-ui-font-color2';
const GRID = '--jp-border-color2';
export const FONT = '11px system-ui, sans-serif';

/** Return a function that draws charts of a design, with the element's width and the theme's colours. */
export function plotter<T>(design: IDesign<T>): Plotter<T> {
  return async host => {
    const { default: library } = await import('uplot');
    const style = getComputedStyle(host); // a live object: it always has the values of the current theme
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
    // set when a theme's styles have loaded; a chart drawn before that may lack its colours
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

/** Options that turn off uPlot's features that the panel doesn't use. */
export const PLAIN_OPTIONS = { cursor: { show: false }, legend: { show: false } } as const;

function widthOf(host: HTMLElement): number {
  return Math.max(MIN_WIDTH, Math.floor(host.clientWidth));
}
