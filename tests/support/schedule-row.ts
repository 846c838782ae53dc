// Schedules to test with.

import { randomBytes, randomUUID } from 'node:crypto';
import { COHORT_ENTROPY_BYTES, memberId, scheduleCohort } from '../../services/core/domain/ids.ts';
import type { ScheduleDefinition, ScheduleRow } from '../../services/core/domain/schedule.ts';

export function newScheduleCohort(): string {
  return scheduleCohort(randomBytes(COHORT_ENTROPY_BYTES));
}

const NEXT = Date.parse('2026-11-15T06:01:00.000Z');

/** Every minute, made a minute before its first slot. */
export function scheduleRow(cohort: string, member: number, overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  const payload = `{"member":${member}}`;
  return {
    cohort,
    scheduleId: memberId(cohort, member),
    owner: 'default',
    key: null,
    queue: 'mail',
    priority: 'normal',
    payload,
    payloadBytes: Buffer.byteLength(payload),
    target: null,
    labels: {},
    maxAttempts: 5,
    timeoutS: 60,
    leaseS: 30,
    retry: { kind: 'exponential', baseS: 1, factor: 2, capS: 3_600, jitter: 'equal' },
    cron: '* * * * *',
    everyS: null,
    timeZone: 'UTC',
    onOverlap: 'skip',
    onMissed: 'run_once',
    missedLimit: 100,
    missedWindowS: null,
    onDstGap: null,
    onDstRepeat: null,
    jitterS: 0,
    startAt: null,
    endAt: null,
    maxRuns: null,
    nextRunAt: NEXT,
    lastSlot: null,
    lastJobId: null,
    runs: 0,
    waiting: [],
    paused: false,
    pausedReason: null,
    pausedUntil: null,
    skipSlot: null,
    shard: 3,
    revision: 1,
    createToken: randomUUID(),
    changeToken: null,
    requestHash: null,
    traceparent: null,
    createdAt: NEXT - 60_000,
    updatedAt: NEXT - 60_000,
    ...overrides,
  };
}

/** A schedule with a value in every column. */
export function fullScheduleRow(cohort: string, member: number): ScheduleRow {
  const id = memberId(cohort, member);
  return scheduleRow(cohort, member, {
    owner: 'team-a',
    key: 'nightly',
    priority: 'high',
    payload: '{"id":9007199254740993,"x":1.10,"s":"a\u0000b", "ü":"\\u00e9"}',
    target: '{"url":"https://example.com/"}',
    labels: { region: 'eu', ['__proto__']: 'a label like any other', empty: '' },
    retry: { kind: 'fixed', baseS: 0.5, factor: 1.25, capS: 7.5, jitter: 'none' },
    everyS: 90,
    onOverlap: 'replace',
    onMissed: 'run_all',
    missedLimit: 7,
    missedWindowS: 3_600,
    onDstGap: 'run_after',
    onDstRepeat: 'both',
    jitterS: 30,
    startAt: NEXT - 1_000,
    endAt: NEXT + 1_000,
    maxRuns: 12,
    lastSlot: NEXT - 60_000,
    lastJobId: `${id}@2026-11-15T06:00:00Z`,
    runs: 3,
    waiting: [`${id}@2026-11-15T05:59:00Z`, `${id}@2026-11-15T06:00:00Z`],
    paused: true,
    pausedReason: 'holidays',
    pausedUntil: NEXT + 5_000,
    skipSlot: NEXT,
    revision: 9,
    changeToken: randomUUID(),
    requestHash: 'ab'.repeat(32),
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });
}

export function definitionOf(row: ScheduleRow): ScheduleDefinition {
  const { queue, priority, payload, payloadBytes, target, labels, maxAttempts, timeoutS, leaseS, retry } = row;
  const { cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt } = row;
  const { onOverlap, onMissed, missedLimit, missedWindowS, jitterS, maxRuns } = row;
  return {
    ...{ queue, priority, payload, payloadBytes, target, labels, maxAttempts, timeoutS, leaseS, retry },
    ...{ cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt },
    ...{ onOverlap, onMissed, missedLimit, missedWindowS, jitterS, maxRuns },
  };
}
