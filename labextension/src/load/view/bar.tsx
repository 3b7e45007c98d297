import React from 'react';

interface IProps {
  /** The visible label. */
  name: string;
  /** The accessible label. */
  label: string;
  /** The value in percent; null if unknown. */
  percent: number | null;
  /** The value as text. */
  text: string;
  /** Why the value is unknown, or more about it. */
  title?: string;
  /** Whether a full bar is a warning, as for memory that runs out; a busy chip is not. */
  isLimit?: boolean;
}

/** One value as a bar, rendered again only when the value changes. */
export const Bar = React.memo(function Bar(props: IProps): JSX.Element {
  const { name, label, percent, text, title, isLimit } = props;
  return (
    <div className="jp-tpu-Load-row" title={title}>
      <span className="jp-tpu-Load-name">{name}</span>
      {percent === null ? (
        <span className="jp-tpu-Load-bar jp-mod-unknown" aria-hidden="true" />
      ) : (
        <span
          className={`jp-tpu-Load-bar${isLimit && percent >= NEAR ? ' jp-mod-near' : ''}`}
          role="meter"
          aria-label={label}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(percent)}
          aria-valuetext={text}
        >
          <i style={{ transform: `scaleX(${scaleOf(percent)})` }} />
        </span>
      )}
      <span className="jp-tpu-Load-text">{text}</span>
    </div>
  );
});

/** The value above which a limit is close, in percent. */
const NEAR = 90;

interface ISparkProps {
  percents: readonly (number | null)[];
  kind: 'duty' | 'hbm';
  /** The largest width in pixels; with more chips the bars become narrower. */
  room?: number;
}

/** A small bar and the gap after it, in pixels. */
const PITCH = 5;
const WIDTH = 4;
const HEIGHT = 16;

/**
 * A small bar for each chip or core, for sighted users only: the text next to it states the total.
 *
 *  It is one drawing and not one element each, because a slice may have hundreds. Unknown values have no background.
 */
export function Spark({ percents, kind, room = Infinity }: ISparkProps): JSX.Element {
  const width = PITCH * percents.length;
  const ground = percents.map((percent, index) => (percent === null ? '' : barAt(index, 1)));
  const bars = percents.map((percent, index) => barAt(index, scaleOf(percent ?? 0)));
  return (
    <svg
      className={`jp-tpu-Spark jp-mod-${kind}`}
      width={Math.min(room, width)}
      height={HEIGHT}
      viewBox={`0 0 ${width} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path className="jp-tpu-Spark-ground" d={ground.join('')} />
      <path d={bars.join('')} />
    </svg>
  );
}

function barAt(index: number, scale: number): string {
  const height = HEIGHT * scale;
  return `M${PITCH * index} ${HEIGHT}v${-height}h${WIDTH}v${height}z`;
}

function scaleOf(percent: number): number {
  return Math.round(Math.min(100, Math.max(0, percent))) / 100;
}
