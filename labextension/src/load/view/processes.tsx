import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { IMetrics } from '../../api.generated';
import { Button } from '../../components/button';
import { Problem } from '../../components/problem';
import { useRequest } from '../../components/userequest';
import * as messages from '../../messages/load';
import { formatSince, processName } from '../../messages/load';
import { INodeKey } from '../../tokens';
import { IProgram, IWorkerProcess, programsOf } from '../processes';

/** Callbacks of the list of TPU processes; they reject with the error to show. */
export interface ILoadActions {
  /** Resolves with the result, or with null when the user cancels. */
  onRelease: (key: INodeKey, processes: readonly IWorkerProcess[]) => Promise<string | null>;
}

interface IProps {
  node: INodeKey;
  metrics: IMetrics;
  /** Whether the user has confirmed and the request is in progress. */
  isReleasing: boolean;
  now_s: number;
  actions: ILoadActions;
  trans: TranslationBundle;
}

/** The TPU processes of a node, and a button to release each. */
export function TpuProcesses({
  node,
  metrics,
  isReleasing,
  now_s,
  actions,
  trans
}: IProps): JSX.Element {
  const { isSending, problem, send, dismiss } = useRequest();
  const [result, setResult] = useState('');
  const programs = programsOf(metrics);
  const release = (processes: readonly IWorkerProcess[]): void =>
    send(async () => setResult((await actions.onRelease(node, processes)) ?? ''));
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
                  onRelease={() => release(program.processes)}
                />
              </li>
            ))}
          </ul>
        </>
      )}
      {isReleasing && <div role="status">{messages.releasing(trans)}</div>}
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
  onRelease: () => void;
}

function Program({ program, isBusy, now_s, trans, onRelease }: IProgramProps): JSX.Element {
  const { first, processes } = program;
  const name = processName(first, trans);
  const facts = [
    processes.length > 1
      ? messages.onWorkers(processes.length, trans)
      : messages.pid(first.pid, trans),
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
          onClick={onRelease}
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
      {name !== first.command && !first.is_kernel && (
        <div className="jp-tpu-Command jp-tpu-Muted" title={first.command}>
          {first.command}
        </div>
      )}
    </>
  );
}
