import * as messages from '../messages';

declare const __dirname: string;

interface IEntry {
  readonly name: string;
  readonly isDirectory: () => boolean;
}

const { readdirSync, readFileSync } = jest.requireActual<{
  readdirSync: (path: string, options: { withFileTypes: true }) => IEntry[];
  readFileSync: (path: string, encoding: string) => string;
}>('fs');

const SOURCES = `${__dirname}/..`;

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? filesIn(path) : [path];
  });
}

/** The texts of a module, without its comments. */
function textsIn(file: string): string[] {
  return readFileSync(file, 'utf-8')
    .split('\n')
    .filter(line => !/^\s*(\/\*\*|\*|\/\/)/.test(line))
    .flatMap(line =>
      [...line.matchAll(/'([^']*)'|"([^"]*)"/g)].map(([, one, other]) => one ?? other)
    );
}

const MESSAGES = filesIn(`${SOURCES}/messages`);

describe('Messages', () => {
  it('are the only texts: no other module calls the translation bundle', () => {
    const others = filesIn(SOURCES).filter(
      file => !file.includes('__tests__') && !MESSAGES.includes(file)
    );
    const calling = others.filter(file =>
      /trans\s*\.\s*(__|_n|_p|_np)\(/.test(readFileSync(file, 'utf-8'))
    );
    expect(calling).toEqual([]);
  });

  it('are listed in the index, screen by screen', () => {
    const screens = MESSAGES.map(file => file.replace(/^.*\/(.*)\.ts$/, '$1'));
    expect(Object.keys(messages).sort()).toEqual(screens.filter(name => name !== 'index').sort());
  });

  it('are plain English', () => {
    const odd =
      /\b(anew|mend|tell of|nobody|somebody|whoever|all the same|makes no sense|by itself|as far as|taken for|is to be|such as have)\b/i;
    expect(MESSAGES.flatMap(textsIn).filter(text => odd.test(text))).toEqual([]);
  });
});
