import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import {
  IAutostopRules,
  IGrantMail,
  IKeepRunning,
  INewBudget,
  INewGrant,
  IResults
} from '../api.generated';
import { Collapsible } from '../components/collapsible';
import { useNow } from '../components/now';
import { LoadProblem } from '../components/problem';
import { STALE_AFTER_S } from '../fleet';
import * as common from '../messages/common';
import { formatDuration } from '../messages/units';
import { INodeKey } from '../tokens';
import { serverNow } from './model';
import { ICompleteness } from './parts';
import { IDated, IMoneyModel, IPart, IRevealed, SectionName } from './tokens';

/** Callbacks of the sections; each runs a command and rejects with the error to show. */
export interface IMoneyActions {
  onToggle: (section: SectionName) => void;
  onKeepRunning: (key: INodeKey, request: IKeepRunning) => Promise<void>;
  /** Stop or delete the node after a confirmation. */
  onEnd: (key: INodeKey, action: 'stop' | 'delete') => Promise<void>;
  onSetAutostop: (key: INodeKey, change: IAutostopRules) => Promise<void>;
  onSetRecovery: (key: INodeKey, isOn: boolean) => Promise<void>;
  onSetBudget: (name: string, terms: INewBudget) => Promise<void>;
  onRemoveBudget: (name: string) => Promise<void>;
  onParseGrant: (text: string) => Promise<IGrantMail>;
  onSaveGrant: (name: string, terms: INewGrant) => Promise<void>;
  onRemoveGrant: (name: string) => Promise<void>;
  /** Open the form for a new node, which also starts searches and queues nodes. */
  onOpenForm: () => void;
  onCancelSearch: (searchId: string) => Promise<void>;
  onRemoveQueued: (zone: string, queuedId: string) => Promise<void>;
  /** Resolves with null if the user cancels. */
  onCleanUp: (names: readonly string[]) => Promise<IResults | null>;
  onStopAll: () => Promise<IResults | null>;
}

/** Props of every section. */
export interface ISectionProps {
  model: Pick<IMoneyModel, 'parts' | 'open' | 'chosenZone'>;
  actions: IMoneyActions;
  trans: TranslationBundle;
}

interface IProps {
  name: SectionName;
  title: string;
  /** A summary next to the title, shown whether the section is open or closed. */
  summary?: string;
  isWarning?: boolean;
  isOpen: boolean;
  onToggle: (section: SectionName) => void;
  children: React.ReactNode;
}

/** The section that an error's action refers to. */
export const RevealedContext = React.createContext<IRevealed | null>(null);

/** A section about money that can be collapsed. */
export function Section({ name, onToggle, ...rest }: IProps): JSX.Element {
  const revealed = React.useContext(RevealedContext);
  const turn = revealed?.section === name ? revealed.turn : 0;
  return <Collapsible {...rest} revealTurn={turn} onToggle={() => onToggle(name)} />;
}

interface IPartProps<T> {
  part: IPart<T>;
  trans: TranslationBundle;
  /** Called with the last data and the server's time now. */
  children: (data: T, now_s: number) => React.ReactNode;
}

/** The data of a part, its age if it is out of date, and one line if it could not be loaded. */
export function PartBody<T extends object>({ part, trans, children }: IPartProps<T>): JSX.Element {
  const now_ms = useNow();
  const { dated, problem } = part;
  return (
    <>
      {problem && <LoadProblem problem={problem} isEmpty={!dated} trans={trans} />}
      {dated && <Age dated={dated} problem={problem !== null} now_ms={now_ms} trans={trans} />}
      {dated && children(dated.data, serverNow(dated, now_ms))}
      {!dated && !problem && (
        <div className="jp-tpu-Muted" role="status">
          {common.loading(trans)}
        </div>
      )}
    </>
  );
}

interface IAgeProps {
  dated: IDated<object>;
  problem: boolean;
  now_ms: number;
  trans: TranslationBundle;
}

function Age({ dated, problem, now_ms, trans }: IAgeProps): JSX.Element | null {
  const { as_of } = dated.data as { as_of?: number | null };
  const age = serverNow(dated, now_ms) - (as_of ?? dated.server_s);
  return age > STALE_AFTER_S || problem ? (
    <div className="jp-tpu-Muted">{common.lastUpdated(formatDuration(age, trans), trans)}</div>
  ) : null;
}

/** A note that a list is incomplete, with the zones that did not respond. */
export function Partial(props: {
  list: ICompleteness;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { list, trans } = props;
  if (list.is_complete) {
    return null;
  }
  return (
    <div className="jp-tpu-Notice jp-tpu-Line" role="status">
      {list.unreachable.length > 0
        ? common.noAnswerFrom(list.unreachable.join(', '), trans)
        : common.incomplete(trans)}
    </div>
  );
}

interface IMeterProps {
  label: string;
  /** From 0 to 1; larger values are shown as full. */
  fraction: number;
  text: string;
  level: 'ok' | 'near' | 'full';
}

/** A bar that shows how much of something is used. */
export function Meter({ label, fraction, text, level }: IMeterProps): JSX.Element {
  const percent = Math.round(Math.min(1, Math.max(0, fraction)) * 100);
  return (
    <div
      className={`jp-tpu-Meter jp-mod-${level}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      aria-valuetext={text}
    >
      <div style={{ width: `${percent}%` }} />
    </div>
  );
}
