import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import a11y from 'eslint-plugin-jsx-a11y';
import hooks from 'eslint-plugin-react-hooks';
import typescript from 'typescript-eslint';

export default typescript.config(
  { ignores: ['coverage', 'lib', 'node_modules', '.yarn', '*.js', '*.mjs', 'style'] },
  js.configs.recommended,
  typescript.configs.recommendedTypeChecked,
  a11y.flatConfigs.strict,
  hooks.configs['recommended-latest'],
  {
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      curly: 'error',
      eqeqeq: 'error',
      'no-console': 'error',
      '@typescript-eslint/explicit-function-return-type': ['error', { allowExpressions: true }],
      // Lumino's signals take `this` as an argument of its own
      '@typescript-eslint/unbound-method': 'off',
      // Lumino's convention, and JupyterLab's
      '@typescript-eslint/no-namespace': 'off',
      '@typescript-eslint/naming-convention': [
        'error',
        { selector: 'interface', format: ['PascalCase'], custom: { regex: '^I[A-Z]', match: true } }
      ]
    }
  },
  prettier
);
