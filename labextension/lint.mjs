// What `tsc --noEmit` and `eslint --max-warnings 0 .` check, over one program: each alone would read and check all types.
import { ESLint } from 'eslint';
import ts from 'typescript';

function report(...diagnostics) {
  const paths = {
    getCanonicalFileName: name => name,
    getCurrentDirectory: () => process.cwd(),
    getNewLine: () => '\n'
  };
  process.stdout.write(ts.formatDiagnostics(diagnostics, paths));
  process.exitCode = 1;
}

const { fileNames, options, errors } = ts.getParsedCommandLineOfConfigFile(
  'tsconfig.json',
  { noEmit: true },
  { ...ts.sys, onUnRecoverableConfigFileDiagnostic: report }
);
const program = ts.createProgram({
  rootNames: fileNames,
  options,
  configFileParsingDiagnostics: errors
});
const diagnostics = ts.getPreEmitDiagnostics(program);
if (diagnostics.length > 0) {
  report(...diagnostics);
}

const eslint = new ESLint({
  overrideConfig: {
    languageOptions: { parserOptions: { projectService: false, programs: [program] } }
  }
});
const results = await eslint.lintFiles('.');
process.stdout.write((await eslint.loadFormatter()).format(results));
if (results.some(result => result.errorCount + result.warningCount > 0)) {
  process.exitCode = 1;
}
