import { INotebookSession, isAbout, isOver, percentOf } from '../kernelstart';
import { IKernelEvent } from '../tokens';

const EVENT: IKernelEvent = {
  kernel_id: 'k1',
  kernel_name: 'tpu-a-us-central1-a',
  node_name: 'projects/p/locations/us-central1-a/nodes/a',
  phase: 'environment',
  message: 'Installing ipykernel',
  fraction: null,
  error_code: ''
};

function session(
  kernel: { id: string; name: string } | null,
  kernelDisplayName: string
): INotebookSession {
  const kernelspecs = { 'tpu-a-us-central1-a': { display_name: 'Python 3 · v5litepod-8 · a' } };
  return {
    session: kernel && { kernel },
    kernelDisplayName,
    specsManager: { specs: { kernelspecs } }
  } as unknown as INotebookSession;
}

describe('an event of a starting kernel', () => {
  it('concerns the notebook that has the kernel', () => {
    expect(isAbout(EVENT, session({ id: 'k1', name: 'anything' }, ''))).toBe(true);
  });

  it('concerns a notebook that waits for a kernel of this spec', () => {
    expect(isAbout(EVENT, session(null, 'Python 3 · v5litepod-8 · a'))).toBe(true);
    const leaving = session({ id: 'k0', name: 'python3' }, 'Python 3 · v5litepod-8 · a');
    expect(isAbout(EVENT, leaving)).toBe(true);
  });

  it('does not concern a notebook with another kernel of the same spec', () => {
    const other = session({ id: 'k2', name: 'tpu-a-us-central1-a' }, 'Python 3 · v5litepod-8 · a');
    expect(isAbout(EVENT, other)).toBe(false);
  });

  it('does not concern other notebooks', () => {
    expect(isAbout(EVENT, session({ id: 'k3', name: 'python3' }, 'Python 3'))).toBe(false);
    expect(isAbout(EVENT, session(null, 'No Kernel'))).toBe(false);
  });

  it('is the last one when the kernel is ready', () => {
    expect(isOver(EVENT)).toBe(false);
    expect(isOver({ ...EVENT, phase: 'ready' })).toBe(true);
  });

  it('tells how much is done where that is known', () => {
    expect(percentOf(EVENT)).toBeNull();
    expect(percentOf({ ...EVENT, fraction: 0.251 })).toBe(25);
  });
});
