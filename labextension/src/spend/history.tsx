import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useMemo } from 'react';
import { IBudget, IBudgetBurnDown, ISpendHistory } from '../api.generated';
import { Canvas, Key, LineSign } from '../chart/canvas';
import { Plotter } from '../chart/drawing';
import { Button } from '../components/button';
import * as common from '../messages/common';
import * as messages from '../messages/spend';
import {
  burnDownDescription,
  historyDescription,
  historyName,
  historyTitle
} from '../messages/spend';
import { PartBody } from '../money/section';
import { barsOf, curveOf, IBars, ICurve, isUsed } from './historydata';
import {
  choiceOf,
  HistoryAnswer,
  HistoryChoice,
  ISpendHistoryModel,
  sameChoice,
  SPANS
} from './historymodel';
import { COLOURS, DASHES, UNKNOWN } from './historyplots';
import { BurnDownTable, SlotsTable } from './historytables';

/** The charts of spending. */
export interface IHistoryPlots {
  readonly bars: Plotter<IBars>;
  readonly curve: Plotter<ICurve>;
}

interface IProps {
  history: ISpendHistoryModel;
  budgets: readonly IBudget[];
  plots: IHistoryPlots;
  /** Whether the times are those of an emulated cloud. */
  isEmulated: boolean;
  trans: TranslationBundle;
}

/** Spending over time: by hour, by day, or of one budget. */
export function SpendHistory(props: IProps): JSX.Element {
  const { history, trans } = props;
  useEffect(() => {
    const subscribe = history.subscribe();
    return () => subscribe.dispose();
  }, [history]);
  return (
    <UseSignal signal={history.changed}>
      {() => (
        <figure className="jp-tpu-History" aria-label={shownTitle(history, trans)}>
          <Choices {...props} />
          <PartBody part={history.part} trans={trans}>
            {data => <Answer data={data} title={shownTitle(history, trans)} {...props} />}
          </PartBody>
        </figure>
      )}
    </UseSignal>
  );
}

function Choices({ history, budgets, trans }: IProps): JSX.Element {
  const readable = budgets.filter(({ amount }) => amount !== null);
  const choices: HistoryChoice[] = [...SPANS, ...readable.map(({ name }) => ({ budget: name }))];
  return (
    <div className="jp-tpu-Actions" role="group" aria-label={common.timeRange(trans)}>
      {choices.map(choice => {
        const name = historyName(choice, trans);
        return (
          <Button
            key={name}
            title={name}
            aria-pressed={sameChoice(choice, history.choice)}
            onClick={() => history.choose(choice)}
          >
            {name}
          </Button>
        );
      })}
    </div>
  );
}

/** The title of the shown history, which may be older than the last choice. */
function shownTitle({ part, choice }: ISpendHistoryModel, trans: TranslationBundle): string {
  return historyTitle(part.dated ? choiceOf(part.dated.data) : choice, trans);
}

interface IAnswerProps extends IProps {
  data: HistoryAnswer;
  title: string;
}

function Answer({ data, title, history, plots, isEmulated, trans }: IAnswerProps): JSX.Element {
  const { isUpdating } = history;
  return 'slots' in data ? (
    <Bars history={data} plot={plots.bars} {...{ isUpdating, title, isEmulated, trans }} />
  ) : (
    <Curve course={data} plot={plots.curve} {...{ title, isEmulated, trans }} />
  );
}

interface IBarsProps {
  history: ISpendHistory;
  isUpdating: boolean;
  title: string;
  isEmulated: boolean;
  plot: Plotter<IBars>;
  trans: TranslationBundle;
}

function Bars({ history, isUpdating, title, plot, isEmulated, trans }: IBarsProps): JSX.Element {
  const bars = useMemo(() => barsOf(history), [history]);
  // a single bar adds nothing to the sum below
  const isComparison = history.slots.filter(isUsed).length > 1;
  return (
    <>
      {isComparison && (
        <Canvas
          what={bars}
          label={common.twoSentences(title, historyDescription(history, trans), trans)}
          plot={plot}
        />
      )}
      <figcaption>
        <span>
          {messages.sumOfChart(history, trans)}
          {isUpdating && <span className="jp-tpu-Muted"> · {messages.updating(trans)}</span>}
        </span>
        {bars.upTo.some(much => much !== null) && (
          <Key sign={<BoxSign colour={COLOURS.upTo} />}>{messages.unmonitored(trans)}</Key>
        )}
        {bars.isUnpriced.some(Boolean) && (
          <Key
            sign={
              <text x="7" y="9" className="jp-tpu-History-sign">
                {UNKNOWN}
              </text>
            }
          >
            {messages.plusUnpriced(history.unpriced.join(', '), trans)}
          </Key>
        )}
      </figcaption>
      <SlotsTable {...{ history, title, isEmulated, trans }} />
    </>
  );
}

function BoxSign({ colour }: { colour: string }): JSX.Element {
  return (
    <rect
      x="5"
      y="1"
      width="10"
      height="8"
      fill="none"
      strokeDasharray={DASHES.upTo.join(' ')}
      style={{ stroke: `var(${colour})` }}
    />
  );
}

interface ICurveProps {
  course: IBudgetBurnDown;
  title: string;
  isEmulated: boolean;
  plot: Plotter<ICurve>;
  trans: TranslationBundle;
}

function Curve({ course, title, plot, isEmulated, trans }: ICurveProps): JSX.Element {
  const curve = useMemo(() => curveOf(course), [course]);
  if (!curve) {
    return <div className="jp-tpu-Muted">{burnDownDescription(course, trans)}</div>;
  }
  const lines = [
    ['known', messages.usedLine(trans)],
    curve.used && ['upTo', messages.unmonitored(trans)],
    curve.runs_out_at !== null && ['ahead', messages.atCurrentRate(trans)],
    ['cap', messages.cap(trans)]
  ].filter((line): line is [keyof typeof COLOURS, string] => Boolean(line));
  return (
    <>
      <Canvas
        what={curve}
        label={common.twoSentences(title, burnDownDescription(course, trans), trans)}
        plot={plot}
      />
      <figcaption>
        {lines.map(([line, name]) => (
          <Key key={line} sign={<LineSign colour={COLOURS[line]} dash={DASHES[line]} />}>
            {name}
          </Key>
        ))}
        {course.unpriced.length > 0 && (
          <span>{messages.unpricedAsDearest(course.unpriced.join(', '), trans)}</span>
        )}
      </figcaption>
      <BurnDownTable {...{ course, title, isEmulated, trans }} />
    </>
  );
}
