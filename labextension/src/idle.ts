/** When to do what can wait: JupyterLab shows its user's work first. */

import { JupyterFrontEnd } from '@jupyterlab/application';

/** On a busy page, how long to wait for a pause. */
const LONGEST_MS = 2_000;

/** Act once the layout is restored and the page has nothing more urgent to do. */
export function whenIdle({ restored }: Pick<JupyterFrontEnd, 'restored'>, act: () => void): void {
  void restored.then(() => {
    if (typeof window.requestIdleCallback === 'function') {
      window.requestIdleCallback(act, { timeout: LONGEST_MS });
    } else {
      window.setTimeout(act); // Safari
    }
  });
}
