declare const __dirname: string;

const { readFileSync } = jest.requireActual<{
  readFileSync: (path: string, encoding: string) => string;
}>('fs');

type Render = (context: object) => () => void;

/** The widget's own script, as Python sends it to a page. */
function load(): Render {
  const [frame, timer] = ['frame.js', 'idle.js'].map(name =>
    readFileSync(`${__dirname}/../../../jupyter_tpu/notebook/widgets/${name}`, 'utf-8')
  );
  const script = `${frame}${timer.replace('export default { render };', 'return render;')}`;
  // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- anywidget does so too
  return new Function(script)() as Render;
}

const DATA = {
  at: Date.now() / 1000,
  ...{ sources: {}, verdict: 'busy', reason: '', ends_in_s: null, ends_why: '', is_warning: false },
  ...{ has_rules: true, rules: { idle_after_s: null, session_s: null }, reminder: '' },
  keep: { for_s: null, while_busy: false },
  guard: { state: 'armed', detail: '' }
};

class Observer {
  observe = (): void => undefined;
  disconnect = (): void => undefined;
}

describe('the idle timer', () => {
  let said: object[];
  let hear: (data: object) => void;
  let close: () => void;
  const el = document.body;

  beforeEach(() => {
    Object.assign(window, { IntersectionObserver: Observer });
    let picture: object = { data: DATA };
    const slots: (() => void)[] = [];
    said = [];
    const model = {
      get: () => picture,
      on: (_: string, slot: () => void) => slots.push(slot),
      off: () => undefined,
      send: (word: object) => said.push(word)
    };
    close = load()({ model, el });
    hear = data => {
      picture = { data: { ...DATA, ...data } };
      slots.forEach(slot => slot());
    };
  });

  afterEach(() => {
    close();
    el.replaceChildren();
  });

  it('reminds of a node that is billed though nobody acts, until somebody keeps it', () => {
    const reminder = 'This node has been billed for 26 h. Keep it running: `%tpu extend`.';
    expect(el.textContent).not.toContain('has been billed');
    hear({ reminder });
    expect(el.textContent).toContain(reminder);
    el.querySelector('button')?.click();
    expect(said).toMatchObject([{ say: 'act', for_s: 3600 }]);
    hear({ keep: { for_s: 3600, while_busy: false } });
    expect(el.textContent).not.toContain('has been billed');
  });

  it('does not have its hours read out', () => {
    hear({ reminder: 'billed for 26 h' });
    const read = [...el.querySelectorAll('[role=status]')].map(({ textContent }) => textContent);
    expect(read.join('')).toBe('');
  });
});
