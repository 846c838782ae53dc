// R075: what the driver may send again by itself, and what it must not.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { QueryOptions } from 'cassandra-driver';
import { AUDIT_STATEMENTS } from '../../services/core/storage/cql/audit-statements.ts';
import { HELD_STATEMENTS } from '../../services/core/storage/cql/held-statements.ts';
import { HISTORY_STATEMENTS } from '../../services/core/storage/cql/history-statements.ts';
import { JOB_STATEMENTS } from '../../services/core/storage/cql/job-statements.ts';
import { KEY_STATEMENTS } from '../../services/core/storage/cql/key-statements.ts';
import {
  OPERATION_LIST_STATEMENTS,
  OPERATION_STATEMENTS,
} from '../../services/core/storage/cql/operation-statements.ts';
import { QUEUE_COUNT_STATEMENTS } from '../../services/core/storage/cql/queue-count-statements.ts';
import { QUEUE_STATEMENTS } from '../../services/core/storage/cql/queue-statements.ts';
import { SCHEDULE_INDEX_STATEMENTS } from '../../services/core/storage/cql/schedule-index-statements.ts';
import { SCHEDULE_KEY_STATEMENTS } from '../../services/core/storage/cql/schedule-key-statements.ts';
import { SCHEDULE_RUN_STATEMENTS } from '../../services/core/storage/cql/schedule-run-statements.ts';
import { SCHEDULE_STATEMENTS } from '../../services/core/storage/cql/schedule-statements.ts';
import { SLOT_STATEMENTS } from '../../services/core/storage/cql/slot-statements.ts';
import { SETTINGS_STATEMENTS } from '../../services/core/storage/cql/settings-statements.ts';
import { STATEMENTS } from '../../services/core/storage/cql/statements.ts';
import { TIMER_STATEMENTS } from '../../services/core/storage/cql/timer-statements.ts';
import { Session } from '../../services/core/storage/session.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { silentTelemetry } from '../support/silent-telemetry.ts';

const writesOf = (statements: readonly string[]): readonly string[] =>
  statements.filter((cql) => !cql.trimStart().startsWith('SELECT'));

const CONDITIONAL = [
  JOB_STATEMENTS,
  SCHEDULE_STATEMENTS,
  KEY_STATEMENTS,
  SCHEDULE_KEY_STATEMENTS,
  SETTINGS_STATEMENTS,
  QUEUE_STATEMENTS,
  SLOT_STATEMENTS,
  OPERATION_STATEMENTS,
].flat();
const PLAIN = [
  TIMER_STATEMENTS,
  HISTORY_STATEMENTS,
  SCHEDULE_RUN_STATEMENTS,
  SCHEDULE_INDEX_STATEMENTS,
  OPERATION_LIST_STATEMENTS,
  AUDIT_STATEMENTS,
  HELD_STATEMENTS,
  QUEUE_COUNT_STATEMENTS,
].flat();

describe('R075 a statement', () => {
  it('of a table of conditional writes is conditional', () => {
    for (const cql of writesOf(CONDITIONAL)) {
      assert.match(cql, /\bIF\b/, cql);
    }
  });

  it('of a table of plain writes says the same whenever it is sent', () => {
    for (const cql of writesOf(PLAIN)) {
      assert.doesNotMatch(cql, /\bIF\b|now\(\)|uuid\(\)|= *\w+ *[+-]/i, cql);
    }
  });

  it('belongs to one of the groups above', () => {
    assert.deepEqual(STATEMENTS.toSorted(), [...CONDITIONAL, ...PLAIN].toSorted());
  });

  it('is sent as idempotent only when it is plain or a read', async () => {
    const sent: (boolean | undefined)[] = [];
    const client = {
      hosts: new Map(),
      on: () => undefined,
      execute: (_cql: string, _values: unknown, options: QueryOptions) => {
        sent.push(options.isIdempotent);
        return Promise.resolve({ rows: [], wasApplied: () => true });
      },
    };
    const session = new Session({ client, loadBalancing: {} } as never, 'any', {
      telemetry: silentTelemetry,
      clock: new FakeClock(),
    });
    const statement = { cql: 'any', values: [] };
    await session.conditional([statement]);
    await session.write([statement]);
    await session.read(statement);
    assert.deepEqual(sent, [false, true, true]);
  });
});
