// Rules for all TypeScript here.

import { resolve } from 'node:path';
import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';
import { TIME_AND_CHANCE_BAN } from './time-and-chance-ban.ts';

const NODE_TEST_FUNCTIONS = ['test', 'describe', 'it', 'suite'];

export default defineConfig(
  { files: ['**/*.ts', '**/*.js', '**/*.cjs'] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: resolve(import.meta.dirname, '../..') },
    },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      // TypeScript knows all names, of types too; this rule does not.
      'no-undef': 'off',
      // Ports are asynchronous where some implementation is; a fake that answers at once is no mistake.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-floating-promises': [
        'error',
        { allowForKnownSafeCalls: [{ from: 'package', name: NODE_TEST_FUNCTIONS, package: 'node:test' }] },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['services/**'],
    // The client runs in other people's processes, under the clock of those.
    ignores: ['services/core/runtime/**', 'services/client/**'],
    rules: TIME_AND_CHANCE_BAN,
  },
  {
    files: ['tests/**'],
    // An index out of range fails the test as well as an assertion would.
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' },
  },
  { files: ['**/*.js', '**/*.cjs'], extends: [tseslint.configs.disableTypeChecked] },
);
