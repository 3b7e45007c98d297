/**
 * Widgets in a notebook that was opened again, looked for once more.
 *
 * JupyterLab looks for a widget every 100 ms for 2 s. One that the kernel tells of between its last look and the end of
 * the 2 s is there, and yet "model not found" stays in its place.
 */

import { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Panel } from '@lumino/widgets';

export const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/** Have each widget that this registry is to draw looked for a second time where the first was in vain. */
export function retryRendering(rendermime: IRenderMimeRegistry): void {
  const create = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = mimeType => {
    const renderer = create(mimeType);
    return mimeType === WIDGET_VIEW ? persistent(renderer) : renderer;
  };
}

function persistent(renderer: IRenderMime.IRenderer): IRenderMime.IRenderer {
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = async model => {
    await render(model);
    if (hasGivenUp(renderer)) {
      await render(model);
    }
  };
  return renderer;
}

/** It shows why there is no widget. While it waits for a kernel it does not have the class. */
function hasGivenUp(renderer: IRenderMime.IRenderer): boolean {
  const isEmpty = renderer instanceof Panel && renderer.widgets.length === 0;
  return isEmpty && !renderer.isDisposed && renderer.hasClass('jupyter-widgets');
}
