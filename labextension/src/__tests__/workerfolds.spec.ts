import {
  IRenderMime,
  MimeModel,
  RenderMimeRegistry,
  standardRendererFactories
} from '@jupyterlab/rendermime';
import { keepFolds } from '../workerfolds';

/** A fold as the kernel sends it. */
function fold(workers: string, text: string, isOpen = false): string {
  const open = isOpen ? ' jp-tpu-mod-open" open' : '"';
  return `<details class="jp-tpu-Workers-${workers}${open}><summary>${workers}</summary>${text}</details>`;
}

/** An output of a cell, and what its folds show after each of these updates. */
class Output {
  constructor(private readonly _trusted: boolean) {
    const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
    keepFolds(rendermime);
    this._renderer = rendermime.createRenderer('text/html');
  }

  async show(...folds: string[]): Promise<Record<string, boolean>> {
    const data = { 'text/html': folds.join('') };
    await this._renderer.renderModel(new MimeModel({ data, trusted: this._trusted }));
    return Object.fromEntries(
      this._folds.map(({ open, firstChild }) => [firstChild?.textContent ?? '', open])
    );
  }

  /** As the user does by a click. */
  toggle(index: number): void {
    this._folds[index].open = !this._folds[index].open;
  }

  get text(): string {
    return this._renderer.node.textContent ?? '';
  }

  private get _folds(): HTMLDetailsElement[] {
    return [...this._renderer.node.querySelectorAll('details')];
  }

  private readonly _renderer: IRenderMime.IRenderer;
}

it.each([true, false])('a fold that the user opened stays open (trusted: %s)', async trusted => {
  const output = new Output(trusted);
  expect(await output.show(fold('1', 'a'), fold('2', 'b'))).toEqual({ 1: false, 2: false });
  output.toggle(1);
  expect(await output.show(fold('1', 'aa'), fold('2', 'bb'))).toEqual({ 1: false, 2: true });
  expect(await output.show(fold('1', 'aaa'), fold('2', 'bbb'))).toEqual({ 1: false, 2: true });
  expect(output.text).toContain('bbb');
  output.toggle(1);
  expect(await output.show(fold('1', 'a'), fold('2', 'b'))).toEqual({ 1: false, 2: false });
});

it('it stays open when its workers join or leave others', async () => {
  const output = new Output(true);
  await output.show(fold('1-2-3', 'a'));
  output.toggle(0);
  expect(await output.show(fold('1-3', 'a'), fold('2', 'b'))).toEqual({ '1-3': true, 2: true });
  expect(await output.show(fold('1-2-3', 'a'))).toEqual({ '1-2-3': true });
});

it('an error opens its fold unless the user has closed it', async () => {
  const output = new Output(true);
  await output.show(fold('1', 'a'));
  expect(await output.show(fold('1', 'failed', true))).toEqual({ 1: true });
  output.toggle(0);
  expect(await output.show(fold('1', 'failed', true))).toEqual({ 1: false });
});
