// The builder's compiler: those of TypeScript and Babel take a third of the time of all tests. `jlpm tsc` checks types.
import { experiments } from '@rspack/core';

export default {
  process(source, filename) {
    const isTypeScript = /\.tsx?$/.test(filename);
    const { code, map } = experiments.swc.transformSync(source, {
      filename,
      jsc: {
        parser: isTypeScript
          ? { syntax: 'typescript', tsx: filename.endsWith('x') }
          : { syntax: 'ecmascript' },
        target: 'es2022',
        transform: { useDefineForClassFields: false } // as in tsconfig.json, by its target
      },
      module: { type: 'commonjs' },
      sourceMaps: true
    });
    return { code, map };
  }
};
