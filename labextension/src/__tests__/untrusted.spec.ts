import { IRecordedRequest } from '../restore/records';
import { NotebookRestorer } from '../restore/restorer';
import { SeenRequests } from '../restore/seen';
import { UntrustedOutputs } from '../untrusted';
import { TestNotebook, TestSource } from './notebook';
import { answer, display, request, stream } from './records';

// a new cell reads itself before it is part of a notebook, and Yjs warns about that each time
beforeAll(() => jest.spyOn(console, 'warn').mockImplementation());

describe('outputs of nodes', () => {
  let notebook: TestNotebook;
  let untrusted: UntrustedOutputs;

  beforeEach(() => {
    notebook = new TestNotebook(['a', 'b']);
    untrusted = new UntrustedOutputs(name => name === 'tpu-a');
    untrusted.watch(notebook.panel);
  });

  /** As JupyterLab does: it trusts the cell, then sends its code. */
  function run(id: string): void {
    notebook.cell(id).model.clearExecution();
    notebook.kernel.send('1', id);
    notebook.cell(id).model.outputs.add({ ...display('<script>'), output_type: 'display_data' });
  }

  function trust(id: string): readonly unknown[] {
    const { model } = notebook.cell(id);
    const outputs = model.outputs;
    const shown = Array.from({ length: outputs.length }, (_, index) => outputs.get(index).trusted);
    return [model.trusted, ...shown, model.getMetadata('trusted')];
  }

  it('are trusted as stock ones, unless the user says otherwise', () => {
    run('a');
    expect(trust('a')).toEqual([true, true, true]);
    expect(notebook.kernel.handleComms).toBe(true);
  });

  it('are untrusted once the user says so, and in the file', () => {
    untrusted.isOn = true;
    run('a');
    expect(trust('a')).toEqual([false, false, false]);
    expect(notebook.shared.canUndo()).toBe(false);
  });

  it('are untrusted only in the cell that ran', () => {
    notebook.cell('b').model.trusted = true;
    untrusted.isOn = true;
    run('a');
    expect(trust('b')).toEqual([true, true]);
  });

  it('of kernels that run elsewhere are as ever', () => {
    Object.assign(notebook.kernel, { name: 'python3' });
    untrusted.isOn = true;
    run('a');
    expect(trust('a')).toEqual([true, true, true]);
    expect(notebook.kernel.handleComms).toBe(true);
  });

  it('make no widgets, until the user trusts them again', () => {
    untrusted.isOn = true;
    expect(notebook.kernel.handleComms).toBe(false);
    untrusted.isOn = false;
    expect(notebook.kernel.handleComms).toBe(true);
  });

  it('of another kernel of the notebook are seen to as well', () => {
    untrusted.isOn = true;
    notebook.sessionContext.session.kernel = null;
    notebook.sessionContext.kernelChanged.emit();
    run('a');
    expect(trust('a')).toEqual([true, true, true]);
    notebook.kernel.handleComms = true;
    notebook.sessionContext.session.kernel = notebook.kernel;
    notebook.sessionContext.kernelChanged.emit();
    run('a');
    expect(trust('a')).toEqual([false, false, false]);
    expect(notebook.kernel.handleComms).toBe(false);
  });

  it.each([
    ['restored', { outputs: [display('x')] }],
    ['followed', { state: 'running', messages: [stream('1', 'x', 90)] }]
  ] as [string, Partial<IRecordedRequest>][])(
    'that are %s make their cell untrusted',
    async (_, parts) => {
      const source = new TestSource();
      const seen = new SeenRequests({ getItem: () => null, setItem: () => undefined });
      const restorer = new NotebookRestorer(notebook.panel.context, source, seen);
      restorer.addPanel(notebook.panel);
      notebook.cell('a').model.trusted = true;
      source.isUntrusted = true;
      source.answers = answer([request('1', 'a', parts)]);
      await restorer.restore();
      expect(trust('a')).toEqual([false, false, false]);
      restorer.dispose();
    }
  );
});
