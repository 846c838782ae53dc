import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { it } from 'node:test';

const PROGRAM = resolve(import.meta.dirname, '../support/cron-cases-run.ts');

function casesIn(hostZone: string): { readonly midnight: string; readonly slots: readonly (readonly string[])[] } {
  const output = execFileSync(process.execPath, [PROGRAM], {
    env: { ...process.env, TZ: hostZone },
    encoding: 'utf8',
    timeout: 60_000,
    maxBuffer: 8 * 1024 * 1024,
  });
  return JSON.parse(output) as ReturnType<typeof casesIn>;
}

it('cron slots do not depend on the zone of the machine: 400 of each case handed over', () => {
  const utc = casesIn('UTC');
  for (const hostZone of ['America/New_York', 'Australia/Lord_Howe']) {
    const there = casesIn(hostZone);
    assert.notEqual(there.midnight, utc.midnight, 'the process is not in that zone');
    assert.deepEqual(there.slots, utc.slots, hostZone);
  }
});
