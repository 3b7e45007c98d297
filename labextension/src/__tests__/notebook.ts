/** An open notebook: real cells and output areas of JupyterLab, and a kernel that a test speaks for. */

import { CodeCell, CodeCellModel } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';
import { OutputArea } from '@jupyterlab/outputarea';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { YNotebook } from '@jupyter/ydoc';
import { IRecordSource } from '../restore/restorer';
import { answer } from './records';

const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });

/** A kernel connection; what is heard or sent on it is up to the test. */
export class TestKernel {
  readonly id = 'k1';
  readonly name = 'tpu-a';
  readonly clientId = 'this-page';
  hasPendingInput = false;
  handleComms = true;
  readonly anyMessage = new Signal<this, Kernel.IAnyMessageArgs>(this);
  readonly iopubMessage = new Signal<this, KernelMessage.IIOPubMessage>(this);
  readonly statusChanged = new Signal<this, Kernel.Status>(this);
  readonly sendInputReply = jest.fn();
  readonly registerMessageHook = jest.fn();
  readonly isDisposed = false;

  onMessage(...messages: KernelMessage.IMessage[]): void {
    for (const msg of messages) {
      this.anyMessage.emit({ msg, direction: 'recv' });
      this.iopubMessage.emit(msg as KernelMessage.IIOPubMessage);
    }
  }

  send(msg_id: string, cellId: string): void {
    const header = { msg_id, msg_type: 'execute_request' };
    const msg = { header, metadata: { cellId } } as unknown as KernelMessage.IMessage;
    this.anyMessage.emit({ msg, direction: 'send' });
  }
}

/** A notebook with its one view. */
export class TestNotebook {
  readonly kernel = new TestKernel();
  readonly shared = new YNotebook({ disableDocumentWideUndoRedo: true });
  readonly disposed = new Signal<this, void>(this);
  widgets: CodeCell[] = [];
  readonly saveState = new Signal<this, 'started' | 'completed' | 'failed'>(this);
  readonly changed = new Signal<this, void>(this);
  readonly ready = Promise.resolve();
  readonly path = 'a.ipynb';

  readonly sessionContext = {
    kernelChanged: new Signal<object, void>({}),
    session: { kernel: this.kernel as TestKernel | null }
  };

  readonly model = {
    dirty: false,
    collaborative: false,
    sharedModel: this.shared,
    cells: Object.assign({ changed: this.changed }, { [Symbol.iterator]: () => this._models() })
  };

  readonly content = { rendermime, widgets: this.widgets };

  constructor(ids: readonly string[]) {
    this.shared.changed.connect(() => (this.model.dirty = true));
    ids.forEach(id => this.add(id));
    this.shared.clearUndoHistory();
  }

  /** This as the panel that JupyterLab has; it is its own context. */
  get panel(): NotebookPanel {
    return this as unknown as NotebookPanel;
  }

  get context(): this {
    return this;
  }

  /** A new cell at the end, or in the place of one with the same id. */
  add(id: string, source = `run(${id})`): CodeCell {
    const sharedModel = this.shared.addCell({ cell_type: 'code', id, source, metadata: {} });
    const model = new CodeCellModel({ sharedModel: sharedModel as never });
    model.stateChanged.connect(() => (this.model.dirty = true));
    model.contentChanged.connect(() => (this.model.dirty = true));
    this._show(model);
    this.model.dirty = false;
    return this.cell(id);
  }

  /** Give a cell a new output area, as moving it does. */
  move(id: string): void {
    const { model } = this.cell(id);
    this.remove(id);
    this._show(model as CodeCellModel);
    this.changed.emit();
  }

  remove(id: string): void {
    this.cell(id).outputArea.dispose();
    this.widgets = this.widgets.filter(({ model }) => model.id !== id);
    Object.assign(this.content, { widgets: this.widgets });
  }

  cell(id: string): CodeCell {
    return this.widgets.find(({ model }) => model.id === id) as CodeCell;
  }

  /** What a cell shows: its prompt, and its outputs as text. */
  shown(id: string): string {
    const { model } = this.cell(id);
    const prompt = model.executionState === 'running' ? '*' : (model.executionCount ?? ' ');
    const outputs = model.outputs.toJSON().map(({ text, data }) => {
      return (text ?? (data as { 'text/plain': string })['text/plain']) as string;
    });
    return `[${prompt}] ${outputs.join('|')}`;
  }

  save(): void {
    this.saveState.emit('started');
    this.saveState.emit('completed');
  }

  private _show(model: CodeCellModel): void {
    const outputArea = new OutputArea({ model: model.outputs, rendermime });
    this.widgets = [...this.widgets, { model, outputArea } as unknown as CodeCell];
    Object.assign(this.content, { widgets: this.widgets });
  }

  private _models(): IterableIterator<unknown> {
    return this.widgets.map(({ model }) => model)[Symbol.iterator]();
  }
}

/** A server half that answers what a test tells it to, when the test wants. */
export class TestSource implements IRecordSource {
  answers = answer([]);
  isOurs = true;
  isUntrusted = false;
  connected = 1;
  readonly asked: string[][] = [];
  /** What happens between the question and the answer. */
  meanwhile: () => void | Promise<void> = () => undefined;

  hasRecord(): boolean {
    return this.isOurs;
  }

  async outputs(_: string, msgIds: readonly string[]): Promise<typeof this.answers> {
    this.asked.push([...msgIds]);
    await this.meanwhile();
    return this.answers;
  }

  isShared(): Promise<boolean> {
    return Promise.resolve(this.connected > 1);
  }
}
