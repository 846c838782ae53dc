// Time, chance and the environment come through ports, so that tests and the simulation can hold them: ESLint refuses the
// globals in the services. tests/unit/lint-ban.test.ts proves that the ban bites.

import type { Linter } from 'eslint';

const BECAUSE = 'is banned here: take the Clock, Random or configuration that core/runtime makes.';

const BANNED_PROPERTIES = [
  ['Date', 'now'],
  ['Math', 'random'],
  ['performance', 'now'],
  ['process', 'env'],
  ['process', 'hrtime'],
  ['AbortSignal', 'timeout'],
];
const BANNED_GLOBALS = ['setTimeout', 'setInterval', 'setImmediate'];
const BANNED_MODULES = ['timers', 'timers/promises', 'perf_hooks', 'process'];
const BANNED_RANDOM = ['randomBytes', 'randomFill', 'randomFillSync', 'randomInt', 'randomUUID', 'webcrypto'];

export const TIME_AND_CHANCE_BAN: Linter.RulesRecord = {
  'no-restricted-properties': [
    'error',
    ...BANNED_PROPERTIES.map(([object, property]) => ({
      object,
      property,
      message: `${object}.${property} ${BECAUSE}`,
    })),
  ],
  'no-restricted-globals': [
    'error',
    {
      globals: BANNED_GLOBALS.map((name) => ({ name, message: `${name} ${BECAUSE}` })),
      checkGlobalObject: true,
    },
  ],
  'no-restricted-syntax': [
    'error',
    { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: `new Date() ${BECAUSE}` },
    { selector: "CallExpression[callee.name='Date']", message: `Date() ${BECAUSE}` },
  ],
  'no-restricted-imports': [
    'error',
    {
      paths: [
        ...BANNED_MODULES.flatMap((name) => [name, `node:${name}`]).map((name) => ({
          name,
          message: `${name} ${BECAUSE}`,
        })),
        ...['crypto', 'node:crypto'].map((name) => ({
          name,
          importNames: BANNED_RANDOM,
          message: `Randomness ${BECAUSE}`,
        })),
      ],
    },
  ],
};
