/**
 * Render widgets of a reopened notebook a second time.
 *
 * JupyterLab looks for a widget every 100 ms for 2 s. One that the kernel announces between the last look and the end
 * of the 2 s exists, and yet "model not found" stays in its place.
 */

import { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Panel } from '@lumino/widgets';

export const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/** Render a widget again if the first attempt found no model. */
export function retryRendering(rendermime: IRenderMimeRegistry): void {
  const create = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = mimeType => {
    const renderer = create(mimeType);
    return mimeType === WIDGET_VIEW ? withSecondAttempt(renderer) : renderer;
  };
}

function withSecondAttempt(renderer: IRenderMime.IRenderer): IRenderMime.IRenderer {
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = async model => {
    await render(model);
    if (hasGivenUp(renderer)) {
      await render(model);
    }
  };
  return renderer;
}

/** Whether an error is shown in place of a widget. While a widget waits for a kernel, it does not have this class. */
function hasGivenUp(renderer: IRenderMime.IRenderer): boolean {
  const isEmpty = renderer instanceof Panel && renderer.widgets.length === 0;
  return isEmpty && !renderer.isDisposed && renderer.hasClass('jupyter-widgets');
}
