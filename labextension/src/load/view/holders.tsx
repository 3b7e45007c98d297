import { TranslationBundle } from '@jupyterlab/translation';
import { useState } from 'react';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import * as messages from '../../messages/load';
import { formatSince, processName } from '../../messages/load';
import { INodeKey } from '../../tokens';
import { IHeld, IProgram, programsOf } from '../holders';
import { IMetrics } from '../records';

/** What can be done to those who hold chips; rejects with what is to be shown. */
export interface ILoadActs {
  /** Resolves with what became of it, or with null when the user has thought better of it. */
  onFree: (key: INodeKey, held: readonly IHeld[]) => Promise<string | null>;
}

interface IProps {
  node: INodeKey;
  metrics: IMetrics;
  /** It is agreed on, and on its way. */
  isFreeing: boolean;
  now_s: number;
  acts: ILoadActs;
  trans: TranslationBundle;
}

/** TPU processes, and a way to take them back. */
export function Holders({ node, metrics, isFreeing, now_s, acts, trans }: IProps): JSX.Element {
  const { isSending, problem, send, dismiss } = useSending();
  const [result, setResult] = useState('');
  const programs = programsOf(metrics);
  const free = (held: readonly IHeld[]): void =>
    send(async () => setResult((await acts.onFree(node, held)) ?? ''));
  return (
    <div className="jp-tpu-Holders">
      {programs.length > 0 && (
        <>
          <div className="jp-tpu-Chip-name">{messages.usedBy(trans)}</div>
          <ul className="jp-tpu-Items" aria-label={messages.processes(trans)}>
            {programs.map(program => (
              <li key={program.key}>
                <Program
                  program={program}
                  isBusy={isSending}
                  now_s={now_s}
                  trans={trans}
                  onFree={() => free(program.held)}
                />
              </li>
            ))}
          </ul>
        </>
      )}
      {isFreeing && <div role="status">{messages.releasing(trans)}</div>}
      {!isSending && result && <div role="status">{result}</div>}
      {problem && <Problem problem={problem} trans={trans} onDismiss={dismiss} />}
    </div>
  );
}

interface IProgramProps {
  program: IProgram;
  isBusy: boolean;
  now_s: number;
  trans: TranslationBundle;
  onFree: () => void;
}

function Program({ program, isBusy, now_s, trans, onFree }: IProgramProps): JSX.Element {
  const { first, held } = program;
  const name = processName(first, trans);
  const facts = [
    held.length > 1 ? messages.onWorkers(held.length, trans) : messages.pid(first.pid, trans),
    first.user,
    formatSince(first, now_s, trans)
  ];
  return (
    <>
      <div className="jp-tpu-Split">
        <strong className="jp-tpu-Name" title={name}>
          {name}
        </strong>
        <Button
          kind="plain"
          isOff={isBusy}
          aria-label={messages.releaseFrom(name, trans)}
          onClick={onFree}
        >
          {messages.releaseEllipsis(trans)}
        </Button>
      </div>
      <div>
        {facts.filter(Boolean).join(' · ')}
        {!first.is_own_user && (
          <span className="jp-tpu-Badge jp-mod-near">{messages.anotherUser(trans)}</span>
        )}
      </div>
      {name !== first.command && (
        <div className="jp-tpu-Command jp-tpu-Muted" title={first.command}>
          {first.command}
        </div>
      )}
    </>
  );
}
