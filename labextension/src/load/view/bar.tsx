import React from 'react';

interface IProps {
  /** What is shown beside it. */
  name: string;
  /** The same for those who hear it alone. */
  label: string;
  /** Null where it is not known. */
  percent: number | null;
  /** The number in words. */
  text: string;
  /** Why it is not known, or more about it. */
  title?: string;
  /** A full one is a warning: memory that runs out, not work that is done. */
  isLimit?: boolean;
}

/** One number as a bar, drawn again only when it changes. */
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

/** From here on a limit is near, in percent. */
const NEAR = 90;

interface ISparkProps {
  percents: readonly (number | null)[];
  kind: 'duty' | 'hbm';
}

/** A small bar for each chip or core, for the eye alone: the words beside it say the sum. */
export function Spark({ percents, kind }: ISparkProps): JSX.Element {
  return (
    <span className={`jp-tpu-Spark jp-mod-${kind}`} aria-hidden="true">
      {percents.map((percent, index) => (
        <span key={index} className={percent === null ? 'jp-mod-unknown' : undefined}>
          <i style={{ transform: `scaleY(${scaleOf(percent ?? 0)})` }} />
        </span>
      ))}
    </span>
  );
}

function scaleOf(percent: number): number {
  return Math.round(Math.min(100, Math.max(0, percent))) / 100;
}
