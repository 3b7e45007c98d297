// Packs page.js with the labextension's @jupyterlab/services into one file; usage: node bundle.cjs FOLDER
const { createRequire } = require('module');
const { join } = require('path');

const front = join(__dirname, '..', '..', '..', 'labextension', 'node_modules');
const load = createRequire(join(front, 'x.js'));
const { rspack } = createRequire(load.resolve('@jupyter/builder/package.json'))('@rspack/core');

rspack(
  {
    mode: 'development',
    devtool: false,
    entry: join(__dirname, 'page.js'),
    output: { path: process.argv[2], filename: 'page.js' },
    resolve: { modules: ['node_modules', front], fallback: { ws: false, path: false } }
  },
  (error, stats) => {
    if (error || stats.hasErrors()) {
      console.error(error ?? stats.toString('errors-only'));
      process.exit(1);
    }
  }
);
