/** The charts of spending over time. */

import type UPlot from 'uplot';
import { PLAIN_OPTIONS, FONT, IDesign, IDrawing, plotter } from '../chart/drawing';
import { clockTime, dateLocale } from '../money/moments';
import { IBars, ICurve } from './historydata';

/** Theme colours of the chart and the legend. */
export const COLOURS = {
  known: '--jp-brand-color1',
  upTo: '--jp-warn-color1',
  ahead: '--jp-ui-font-color2',
  cap: '--jp-error-color1'
} as const;
/** Line styles, for users who can't tell the colours apart. */
export const DASHES = { known: [], upTo: [5, 3], ahead: [1, 3], cap: [8, 4] } as const;

/** Stands for an unknown price. */
export const UNKNOWN = '?';

const TEXT = '--jp-ui-font-color1';
const WIDTH = 1.5;
/** The widest bar, in pixels. */
const MAX_BAR_WIDTH = 28;
const ABOVE_BAR = 4;
const DIGIT = 7;
const BESIDE_DIGITS = 16;
const LABEL = 56;
const INCREMENTS = [1, 2, 3, 6, 12, 24];
/** The length of a chart from which it shows dates in place of times, in seconds. */
const DAYS_FROM_S = 2 * 86_400;
/** Space above the highest value, as a factor, so that nothing touches the edge. */
const HEADROOM = 1.15;

const BARS: IDesign<IBars> = {
  options: ({ library, axis, colour, shown }) => ({
    ...PLAIN_OPTIONS,
    scales: {
      x: { time: false, range: (_, least, most) => [(least ?? 0) - 0.5, (most ?? 0) + 0.5] },
      y: { range: (_, __, most) => [0, (most || 1) * HEADROOM] }
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        incrs: INCREMENTS,
        size: 24,
        space: LABEL,
        values: (_, ticks) => ticks.map(tick => shown()?.labels[tick] ?? '')
      },
      amounts(axis, tick => dollars(tick))
    ],
    series: [
      {},
      {
        dash: [...DASHES.upTo],
        paths: barsOf(library),
        points: { show: false },
        stroke: () => colour(COLOURS.upTo),
        width: WIDTH
      },
      {
        fill: () => colour(COLOURS.known),
        paths: barsOf(library),
        points: { show: false },
        width: 0
      }
    ],
    hooks: { draw: [chart => markUnknown(chart, shown(), colour(TEXT))] }
  }),
  empty: [[], [], []],
  fill: (chart, { labels, known, upTo }) =>
    chart.setData([labels.map((_, index) => index), [...upTo], [...known]])
};

function barsOf(library: typeof UPlot): UPlot.Series.PathBuilder | undefined {
  return library.paths.bars?.({ size: [0.7, MAX_BAR_WIDTH] });
}

/** Mark the amounts of unknown price, which have no height. */
function markUnknown(chart: UPlot, bars: IBars | null, colour: string): void {
  const { ctx } = chart;
  const ratio = window.devicePixelRatio;
  ctx.save();
  ctx.scale(ratio, ratio);
  ctx.fillStyle = colour;
  ctx.font = `bold ${FONT}`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  bars?.isUnpriced.forEach((isUnpriced, index) => {
    if (isUnpriced) {
      const top = Math.max(bars.known[index], bars.upTo[index] ?? 0);
      const [x, y] = [chart.valToPos(index, 'x', true), chart.valToPos(top, 'y', true)];
      ctx.fillText(UNKNOWN, x / ratio, y / ratio - ABOVE_BAR);
    }
  });
  ctx.restore();
}

const CURVE_LINES = ['known', 'upTo', 'ahead', 'cap'] as const;

const CURVE: IDesign<ICurve> = {
  options: ({ axis, colour, shown }) => ({
    ...PLAIN_OPTIONS,
    scales: { y: { range: (_, __, most) => [0, (most || 1) * HEADROOM] } },
    axes: [
      { ...axis, size: 24, space: LABEL + 10, values: (_, ticks) => moments(ticks, shown()) },
      amounts(axis, tick => (shown()?.unit === 'hours' ? `${short(tick)} h` : dollars(tick)))
    ],
    series: [
      {},
      ...CURVE_LINES.map(line => ({
        dash: [...DASHES[line]],
        points: { show: false },
        spanGaps: true,
        stroke: () => colour(COLOURS[line]),
        width: WIDTH
      }))
    ]
  }),
  empty: [[], ...CURVE_LINES.map(() => [])] as unknown as UPlot.AlignedData,
  fill: (chart, curve) => {
    chart.setData(linesOf(curve), false);
    chart.setScale('x', { min: curve.at[0], max: curve.ends_at });
  }
};

/** The chart's four lines with common times: the past, the time when the budget runs out, and the end. */
function linesOf({ at, watched, used, cap, ends_at, runs_out_at }: ICurve): UPlot.AlignedData {
  const later = runs_out_at === null ? [ends_at] : [runs_out_at, ends_at];
  const none = later.map(() => null);
  const now = at.length - 1;
  const ahead = [...at, ...later].map((moment, index) =>
    index === now ? (used ?? watched)[now] : moment === runs_out_at ? cap : null
  );
  return [
    [...at, ...later],
    [...watched, ...none],
    used ? [...used, ...none] : [...at, ...later].map(() => null),
    runs_out_at === null ? ahead.map(() => null) : ahead,
    ahead.map(() => cap)
  ];
}

function moments(ticks: readonly number[], curve: ICurve | null): string[] {
  const isLong = curve !== null && curve.ends_at - curve.at[0] > DAYS_FROM_S;
  return ticks.map(tick => (isLong ? dayName(tick) : clockTime(tick)));
}

function dayName(seconds: number): string {
  return new Date(seconds * 1000).toLocaleDateString(dateLocale(), {
    month: 'short',
    day: 'numeric'
  });
}

/** An axis as wide as its longest label. */
function amounts(axis: IDrawing<unknown>['axis'], format: (tick: number) => string): UPlot.Axis {
  return {
    ...axis,
    size: (_, texts) =>
      Math.max(...(texts ?? ['']).map(text => text.length)) * DIGIT + BESIDE_DIGITS,
    space: 28,
    values: (_, ticks) => ticks.map(format)
  };
}

function dollars(amount: number): string {
  return `$${short(amount)}`;
}

function short(amount: number): string {
  return amount.toLocaleString('en-US', { maximumSignificantDigits: 4 });
}

export const plots = { bars: plotter(BARS), curve: plotter(CURVE) };
