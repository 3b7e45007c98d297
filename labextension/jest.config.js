const fromJupyterLab = require('@jupyterlab/testing/lib/jest-config')(__dirname);

// packages that are published as ES modules only
const esModules = [
  '@codemirror',
  '@jupyter/',
  '@jupyterlab/',
  '@marijn',
  '@microsoft',
  '@rjsf',
  'exenv-es6',
  'lib0',
  'marked',
  'nanoid',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
];

module.exports = {
  ...fromJupyterLab,
  reporters: ['default'],
  // only against hanging: a busy machine needs long for a screen of many rows
  testTimeout: 120_000,
  setupFilesAfterEnv: ['<rootDir>/src/__tests__/patience.ts'],
  testRegex: 'src/__tests__/.*\\.spec\\.tsx?$',
  transform: {
    '\\.svg$': fromJupyterLab.transform['\\.svg$'],
    '^.+\\.[jt]sx?$': '<rootDir>/jest-swc.mjs'
  },
  transformIgnorePatterns: [`/node_modules/(?!${esModules.join('|')}).+`]
};
