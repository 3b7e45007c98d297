import { IRenderMime, RenderMimeRegistry } from '@jupyterlab/rendermime';
import { Panel, Widget } from '@lumino/widgets';
import { retryRendering, WIDGET_VIEW } from '../widgetviews';

/** Finds its widget after so many looks in vain. */
class TestRenderer extends Panel implements IRenderMime.IRenderer {
  looks = 0;

  constructor(private readonly _inVain: number) {
    super();
  }

  renderModel(): Promise<void> {
    this.looks += 1;
    if (this.looks > this._inVain) {
      this.addWidget(new Widget());
    } else {
      this.addClass('jupyter-widgets');
    }
    return Promise.resolve();
  }
}

function rendererOf(mimeType: string, inVain: number): TestRenderer {
  const rendermime = new RenderMimeRegistry();
  retryRendering(rendermime);
  const createRenderer = (): TestRenderer => new TestRenderer(inVain);
  rendermime.addFactory({ safe: true, mimeTypes: [mimeType], createRenderer });
  return rendermime.createRenderer(mimeType) as TestRenderer;
}

it.each([
  ['a widget that is there is looked for once', 0, 1],
  ['a widget that came late is looked for again', 1, 2],
  ['a widget that is nowhere is given up', 9, 2]
])('%s', async (_, inVain, looks) => {
  const renderer = rendererOf(WIDGET_VIEW, inVain);
  await renderer.renderModel();
  expect(renderer.looks).toBe(looks);
  expect(renderer.widgets).toHaveLength(inVain < 2 ? 1 : 0);
});

it('nothing else is rendered twice', async () => {
  const renderer = rendererOf('text/html', 9);
  await renderer.renderModel();
  expect(renderer.looks).toBe(1);
});
