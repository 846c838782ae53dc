// The ban on time, chance and the environment outside core/runtime is only as good as its bite.

import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import { TIME_AND_CHANCE_BAN } from '../../scripts/lint/time-and-chance-ban.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const CONFIG = resolve(ROOT, 'scripts/lint/eslint.config.js');
const BAN_RULES = Object.keys(TIME_AND_CHANCE_BAN);

const eslint = new ESLint({
  cwd: ROOT,
  overrideConfigFile: CONFIG,
  // The ban reads no types, and the files below do not exist for the type checker to find.
  overrideConfig: { languageOptions: { parserOptions: { projectService: false } } },
  ruleFilter: ({ ruleId }) => BAN_RULES.includes(ruleId),
});

async function bansIn(filePath: string, code: string): Promise<number> {
  const [result] = await eslint.lintText(code, { filePath: resolve(ROOT, filePath) });
  assert.ok(result);
  assert.equal(result.fatalErrorCount, 0, JSON.stringify(result.messages));
  return result.errorCount;
}

const BANNED = [
  'export const at = Date.now();',
  'export const at = new Date();',
  'export const at = Date();',
  'setTimeout(() => undefined, 1);',
  'setInterval(() => undefined, 1);',
  'setImmediate(() => undefined);',
  'globalThis.setTimeout(() => undefined, 1);',
  'export const chance = Math.random();',
  'export const home = process.env.HOME;',
  'export const { env } = process;',
  'export const ticks = process.hrtime();',
  'export const ticks = process.hrtime.bigint();',
  'export const ticks = performance.now();',
  'export const signal = AbortSignal.timeout(1);',
  "import { setTimeout as sleep } from 'node:timers/promises'; await sleep(1);",
  "import { performance as clock } from 'node:perf_hooks'; clock.now();",
  "import { env } from 'node:process'; export const home = env.HOME;",
  "import { randomUUID } from 'node:crypto'; export const id = randomUUID();",
];

const ALLOWED = [
  'export const at = new Date(0);',
  'export const at = Date.UTC(2026, 0);',
  'export const least = Math.min(1, 2);',
  "process.on('SIGTERM', () => undefined);",
  "import { createHash } from 'node:crypto'; export const hash = createHash('sha256');",
];

describe('the ban on time and chance', () => {
  for (const code of BANNED) {
    it(`bites: ${code}`, async () => {
      assert.ok((await bansIn('services/dispatcher/sample.ts', code)) > 0);
      assert.ok((await bansIn('services/core/domain/sample.ts', code)) > 0);
    });
  }

  for (const code of ALLOWED) {
    it(`lets pass: ${code}`, async () => {
      assert.equal(await bansIn('services/dispatcher/sample.ts', code), 0);
    });
  }

  it('leaves core/runtime alone, where the ports are made', async () => {
    for (const code of BANNED) assert.equal(await bansIn('services/core/runtime/sample.ts', code), 0, code);
  });

  it('leaves scripts and tests alone', async () => {
    for (const code of BANNED) {
      assert.equal(await bansIn('scripts/sample.ts', code), 0, code);
      assert.equal(await bansIn('tests/unit/sample.test.ts', code), 0, code);
    }
  });
});
