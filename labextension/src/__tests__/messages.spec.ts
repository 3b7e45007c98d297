import { readdirSync, readFileSync } from 'fs';
import { join, relative } from 'path';
import * as messages from '../messages';

const SOURCES = join(__dirname, '..');

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry =>
    entry.isDirectory() ? filesIn(join(folder, entry.name)) : [join(folder, entry.name)]
  );
}

function textsIn(file: string): string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => !/^\s*(\/\*\*|\*|\/\/)/.test(line))
    .flatMap(line =>
      [...line.matchAll(/'([^']*)'|"([^"]*)"/g)].map(([, one, other]) => one ?? other)
    );
}

const MESSAGES = filesIn(join(SOURCES, 'messages'));

describe('Messages', () => {
  it('are the only texts: no other module calls the translation bundle', () => {
    const others = filesIn(SOURCES).filter(
      file => !file.includes('__tests__') && !MESSAGES.includes(file)
    );
    const calling = others.filter(file =>
      /trans\s*\.\s*(__|_n|_p|_np)\(/.test(readFileSync(file, 'utf8'))
    );
    expect(calling.map(file => relative(SOURCES, file))).toEqual([]);
  });

  it('are listed in the index, screen by screen', () => {
    const screens = MESSAGES.map(file =>
      relative(join(SOURCES, 'messages'), file).replace('.ts', '')
    );
    expect(Object.keys(messages).sort()).toEqual(screens.filter(name => name !== 'index').sort());
  });

  it('are plain English', () => {
    const odd =
      /\b(anew|mend|tell of|nobody|somebody|whoever|all the same|makes no sense|by itself|as far as|taken for|is to be|such as have)\b/i;
    expect(MESSAGES.flatMap(textsIn).filter(text => odd.test(text))).toEqual([]);
  });
});
