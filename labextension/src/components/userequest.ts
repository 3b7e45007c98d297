import { useRef, useState } from 'react';
import { problemOf } from '../request';
import { IProblem } from '../tokens';

export interface IRequestState {
  readonly isSending: boolean;
  /** Why the last request was refused. */
  readonly problem: IProblem | null;
  /** Run an action, unless another one is running: repeated clicks have no effect. */
  readonly send: (act: () => Promise<unknown>) => void;
  readonly dismiss: () => void;
}

/** A hook that sends one request at a time and stores its error. */
export function useRequest(): IRequestState {
  const inFlight = useRef(false);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<IProblem | null>(null);
  const run = async (act: () => Promise<unknown>): Promise<void> => {
    inFlight.current = true;
    setSending(true);
    setProblem(null);
    try {
      await act();
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      inFlight.current = false;
      setSending(false);
    }
  };
  return {
    isSending,
    problem,
    send: act => void (inFlight.current || run(act)),
    dismiss: () => setProblem(null)
  };
}
