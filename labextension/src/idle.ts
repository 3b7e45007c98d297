/** Defers work that can wait until JupyterLab has shown the user's documents. */

import { JupyterFrontEnd } from '@jupyterlab/application';

/** The longest wait for a pause on a busy page. On a slow computer, JupyterLab itself needs some seconds. */
const LONGEST_MS = 5_000;

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
