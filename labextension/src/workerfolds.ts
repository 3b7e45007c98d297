/**
 * Keep open what the user has opened of the other workers' output.
 *
 * The kernel of a slice shows that output as HTML and replaces it while the cell runs, twice a second.
 */

import { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';

// The classes of a fold, as `jupyter_tpu.notebook.slices.folding` writes them; the numbers of its workers follow.
const WORKERS = 'jp-tpu-Workers-';
const OPEN = 'jp-tpu-mod-open';

/** Let updates of a fold keep its state if the user has changed it. */
export function keepFolds(rendermime: IRenderMimeRegistry): void {
  const create = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = mimeType => {
    const renderer = create(mimeType);
    return mimeType === 'text/html' ? keepingFolds(renderer) : renderer;
  };
}

function keepingFolds(renderer: IRenderMime.IRenderer): IRenderMime.IRenderer {
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = async model => {
    const chosen = chosenStates(renderer.node);
    await render(model);
    for (const fold of foldsIn(renderer.node)) {
      const known = workersOf(fold).find(worker => chosen.has(worker));
      fold.open = known === undefined ? fold.open : (chosen.get(known) ?? fold.open);
    }
  };
  return renderer;
}

/** Whether a worker's fold is open, for each worker whose fold the user has opened or closed. */
function chosenStates(node: HTMLElement): Map<string, boolean> {
  const changed = foldsIn(node).filter(fold => fold.open !== fold.classList.contains(OPEN));
  return new Map(changed.flatMap(fold => workersOf(fold).map(worker => [worker, fold.open])));
}

function foldsIn(node: HTMLElement): HTMLDetailsElement[] {
  return [...node.querySelectorAll<HTMLDetailsElement>(`details[class*="${WORKERS}"]`)];
}

function workersOf({ classList }: HTMLDetailsElement): string[] {
  const name = [...classList].find(each => each.startsWith(WORKERS)) ?? '';
  return name.slice(WORKERS.length).split('-');
}
