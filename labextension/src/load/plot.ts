/** The chart of a node's load over time. */

import { PLAIN_OPTIONS, IDesign, plotter } from '../chart/drawing';
import { clockTime } from '../money/moments';
import { ISeries, Line, LINES } from './series';

/** The lines of the chart, and how many of the last seconds are shown. */
export interface IHistoryView {
  readonly series: ISeries;
  readonly span_s: number;
}

/** Line styles, for users who cannot tell the colours apart. */
export const DASHES: { readonly [line in Line]: readonly number[] } = {
  duty: [],
  busiest: [6, 3],
  hbm: [2, 2],
  cpu: [8, 3, 2, 3]
};
/** Theme colours of the lines and the legend. */
export const COLOURS: { readonly [line in Line]: string } = {
  duty: '--jp-brand-color1',
  busiest: '--jp-error-color1',
  hbm: '--jp-success-color1',
  cpu: '--jp-ui-font-color2'
};

const DESIGN: IDesign<IHistoryView> = {
  options: ({ axis, colour }) => ({
    ...PLAIN_OPTIONS,
    scales: { y: { range: [0, 100] } },
    axes: [
      { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map(clockTime) },
      { ...axis, size: 34, space: 24, values: (_, ticks) => ticks.map(tick => `${tick}`) }
    ],
    series: [
      {},
      ...LINES.map(line => ({
        stroke: () => colour(COLOURS[line]),
        dash: [...DASHES[line]],
        width: 1.5,
        points: { show: false }
      }))
    ]
  }),
  empty: [[], ...LINES.map(() => [])],
  fill: (chart, { series, span_s }) => {
    const end = series.at[series.at.length - 1] ?? Date.now() / 1000;
    chart.setData([[...series.at], ...LINES.map(line => [...series[line]])], false);
    chart.setScale('x', { min: end - span_s, max: end });
  }
};

export const plot = plotter(DESIGN);
