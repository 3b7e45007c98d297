/** The chart of the last hour: a strip with the activity, and above it the elapsed part of the idle timeout. */

import type UPlot from 'uplot';
import { IActivityInterval } from '../api.generated';
import { PLAIN_OPTIONS, IDesign, plotter } from '../chart/drawing';
import { clockTime } from '../money/moments';
import { HOUR_S, IActivityData } from './activitydata';

/** Theme colours of the chart and the legend. */
export const COLOURS = {
  busy: '--jp-brand-color1',
  idle: '--jp-border-color1',
  unknown: '--jp-warn-color1',
  level: '--jp-ui-font-color1'
} as const;

/** Vertical position of the strip: below zero, in percent of the idle timeout. */
const STRIP = { top: -8, bottom: -32 } as const;
const HATCH_PITCH = 5;
/** Minimum time range of the chart, in seconds. */
const MIN_SPAN_S = 600;

const DESIGN: IDesign<IActivityData> = {
  options: ({ axis, colour, shown }) => ({
    ...PLAIN_OPTIONS,
    scales: { y: { range: [STRIP.bottom, 105] } },
    axes: [
      { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map(clockTime) },
      {
        ...axis,
        size: 54,
        splits: () => (shown()?.hasRule ? [0, 50, 100] : []),
        values: (_, ticks) => ticks.map(tick => `${tick} %`)
      }
    ],
    series: [{}, { points: { show: false }, stroke: () => colour(COLOURS.level), width: 1.5 }],
    hooks: {
      drawClear: [
        chart => {
          for (const stretch of shown()?.stretches ?? []) {
            drawStretch(chart, stretch, colour(COLOURS[stretch.verdict]));
          }
        }
      ]
    }
  }),
  empty: [[], []],
  fill: (chart, { at, level, now, stretches }) => {
    chart.setData([[...at], [...level]], false);
    chart.setScale('x', { min: startOf(stretches, now), max: now });
  }
};

/** Show at least `MIN_SPAN_S`: little data would otherwise be a thin line at the edge. */
function startOf(stretches: readonly IActivityInterval[], now: number): number {
  const first = stretches[0]?.starts_at ?? now;
  return Math.max(now - HOUR_S, Math.min(first, now - MIN_SPAN_S));
}

function drawStretch(
  chart: UPlot,
  { starts_at, ends_at, verdict }: IActivityInterval,
  colour: string
): void {
  const { ctx, bbox } = chart;
  const left = Math.max(bbox.left, chart.valToPos(starts_at, 'x', true));
  const width = Math.max(1, chart.valToPos(ends_at, 'x', true) - left);
  const top = chart.valToPos(STRIP.top, 'y', true);
  const height = chart.valToPos(STRIP.bottom, 'y', true) - top;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  if (verdict === 'unknown') {
    ctx.clip();
    hatch(ctx, left, top, width, height, colour);
  } else {
    ctx.fillStyle = colour;
    ctx.fill();
  }
  ctx.restore();
}

/** Return a hatching pattern, for users who can't distinguish the colours. */
function hatch(
  ctx: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  height: number,
  colour: string
): void {
  ctx.strokeStyle = colour;
  ctx.beginPath();
  const pitch = HATCH_PITCH * window.devicePixelRatio;
  for (let x = left - height; x < left + width; x += pitch) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
}

export const activityPlot = plotter(DESIGN);
