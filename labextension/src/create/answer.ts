import { useEffect, useState } from 'react';
import { IChoice } from '../money/client';
import { problemOf } from '../request';
import { IProblem } from '../tokens';

/** Delay after the last change, so that typing causes only one request. */
const DEBOUNCE_MS = 300;

export interface IAnswer<T> {
  readonly data: T | null;
  readonly problem: IProblem | null;
}

const NO_ANSWER = { data: null, problem: null };

/** A hook that returns the response for the latest choice, requested shortly after its last change. */
export function useAnswer<T>(
  choice: IChoice,
  load: ((choice: IChoice) => Promise<T>) | undefined
): IAnswer<T> {
  const { zone, accelerator_type, provisioning } = choice;
  const [answer, setAnswer] = useState<IAnswer<T>>(NO_ANSWER);
  useEffect(() => {
    let isCurrent = true;
    const update = (next: IAnswer<T>): void => {
      if (isCurrent) {
        setAnswer(next);
      }
    };
    update(NO_ANSWER);
    if (!load || !zone) {
      return;
    }
    const timer = window.setTimeout(() => {
      load({ zone, accelerator_type, provisioning }).then(
        data => update({ data, problem: null }),
        error => update({ data: null, problem: problemOf(error) })
      );
    }, DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [zone, accelerator_type, provisioning, load]);
  return answer;
}
