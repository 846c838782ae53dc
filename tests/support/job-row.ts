// Jobs to test with.

import { randomBytes, randomUUID } from 'node:crypto';
import { COHORT_ENTROPY_BYTES, jobCohort, memberId } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';

export function newCohort(): string {
  return jobCohort(randomBytes(COHORT_ENTROPY_BYTES));
}

/** A job that has just been created, scheduled for a moment that has passed. */
export function jobRow(cohort: string, member: number, overrides: Partial<JobRow> = {}): JobRow {
  const payload = `{"member":${member}}`;
  const runAt = Date.parse('2026-11-15T06:00:00.123Z');
  return {
    cohort,
    jobId: memberId(cohort, member),
    owner: 'default',
    queue: 'mail',
    priority: 'normal',
    payload,
    payloadBytes: Buffer.byteLength(payload),
    target: null,
    labels: {},
    idempotencyKey: null,
    runAt,
    scheduledFor: runAt,
    shard: 3,
    status: JobStatus.scheduled,
    attempt: 0,
    tries: 0,
    lapses: 0,
    lostClaims: 0,
    heard: false,
    maxAttempts: 5,
    timeoutS: 60,
    leaseS: 30,
    retry: { kind: 'exponential', baseS: 1, factor: 2, capS: 3_600, jitter: 'equal' },
    leaseUntil: null,
    deadlineAt: null,
    worker: null,
    cancelRequested: false,
    lastError: null,
    result: null,
    progress: null,
    reason: null,
    scheduleId: null,
    onOverlap: null,
    waitsFor: null,
    slotUntil: null,
    traceparent: null,
    createToken: randomUUID(),
    requestHash: null,
    expiresAt: null,
    createdAt: runAt - 1_000,
    enqueuedAt: null,
    finishedAt: null,
    bulkMarks: [],
    starts: new Map(),
    ends: new Map(),
    ...overrides,
  };
}

/** A job with a value in every column. */
export function fullJobRow(cohort: string, member: number): JobRow {
  const at = Date.parse('2026-11-15T06:00:01.001Z');
  return jobRow(cohort, member, {
    owner: 'team-a',
    priority: 'high',
    payload: '{"id":9007199254740993,"x":1.10,"s":"a\u0000b", "ü":"\\u00e9"}',
    target: '{"url":"https://example.com/"}',
    labels: { region: 'eu', ['__proto__']: 'a label like any other', empty: '' },
    idempotencyKey: 'order-17',
    status: JobStatus.dead,
    attempt: 2,
    tries: 2,
    lapses: 1,
    lostClaims: 1,
    heard: true,
    retry: { kind: 'fixed', baseS: 0.5, factor: 1.25, capS: 7.5, jitter: 'none' },
    leaseUntil: at + 1,
    deadlineAt: at + 2,
    worker: 'worker-1',
    cancelRequested: true,
    lastError: 'boom\nand more',
    result: '{"ok":false}',
    progress: '50 %',
    reason: 'attempts',
    scheduleId: 's_0123456789abc_00',
    onOverlap: 'queue',
    waitsFor: 's_0123456789abc_00@2026-11-15T05:00:00Z',
    slotUntil: Date.parse('2026-11-15T05:30:00Z'),
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    requestHash: 'ab'.repeat(32),
    expiresAt: at + 3,
    enqueuedAt: at + 4,
    finishedAt: at + 5,
    bulkMarks: ['o_0123456789abc_00@1763186400123', 'o_abcdefghjkmnp_01@1763186400124'],
    starts: new Map([
      [1, { worker: 'worker-1', claimId: 'c1', startedAt: at }],
      [2, { worker: 'worker-2', claimId: 'c2', startedAt: at + 10 }],
    ]),
    ends: new Map([
      [1, { endedAt: at + 5, outcome: 'failed', error: 'boom' }],
      [2, { endedAt: at + 15, outcome: 'lease_expired', error: null }],
    ]),
  });
}
