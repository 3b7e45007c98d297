import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { useSending } from '../../components/sending';
import { INodeKey } from '../../tokens';
import { IHeld, IProgram, programsOf } from '../holders';
import { IMetrics } from '../records';
import { formatSince, holderName } from '../words';

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
          <div className="jp-tpu-Chip-name">{trans.__('The chips are held by')}</div>
          <ul className="jp-tpu-Items" aria-label={trans.__('TPU processes')}>
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
      {isFreeing && <div role="status">{trans.__('Releasing the chips…')}</div>}
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
  const name = holderName(first, trans);
  const facts = [
    held.length > 1
      ? trans._n('on %1 worker', 'on %1 workers', held.length)
      : trans.__('pid %1', first.pid),
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
          aria-label={trans.__('Release the chips used by %1', name)}
          onClick={onFree}
        >
          {trans.__('Release…')}
        </Button>
      </div>
      <div>
        {facts.filter(Boolean).join(' · ')}
        {!first.is_own_user && (
          <span className="jp-tpu-Badge jp-mod-near">{trans.__('another user')}</span>
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
