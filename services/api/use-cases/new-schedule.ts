import { COHORT_ENTROPY_BYTES, cohortOf, memberId, scheduleCohort, shardOf } from '../../core/domain/ids.ts';
import { SECOND_MS } from '../../core/domain/limits.ts';
import type { ScheduleDefinition, ScheduleRow } from '../../core/domain/schedule.ts';
import { timetableOf } from '../../core/domain/timetable.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { ALL_QUEUES, type ScheduleIndexEntry } from '../../core/ports/schedule-index.ts';

/** Intervals are counted from a whole second: from now on, where the caller names none. */
export function anchored(definition: ScheduleDefinition, now: EpochMs): ScheduleDefinition {
  if (definition.everyS === null || definition.startAt !== null) return definition;
  return { ...definition, startAt: Math.floor(now / SECOND_MS) * SECOND_MS };
}

/** The first slot that is still to come; null when there is none. */
export function firstSlot(definition: ScheduleDefinition, scheduleId: string, now: EpochMs): EpochMs | null {
  return timetableOf(definition, scheduleId).next(now);
}

/** A schedule as it begins. */
export function newScheduleRow(
  scheduleId: string,
  definition: ScheduleDefinition,
  given: {
    readonly owner: string;
    readonly name: string | null;
    readonly nextRunAt: EpochMs;
    readonly now: EpochMs;
    readonly shards: number;
    readonly createToken: string;
    readonly traceparent: string | null;
  },
): ScheduleRow {
  const { owner, name, nextRunAt, now, shards, createToken, traceparent } = given;
  const cohort = cohortOf(scheduleId);
  return {
    ...definition,
    cohort,
    scheduleId,
    owner,
    key: name,
    shard: shardOf(cohort, shards),
    nextRunAt,
    lastSlot: null,
    lastJobId: null,
    runs: 0,
    waiting: [],
    paused: false,
    pausedReason: null,
    pausedUntil: null,
    skipSlot: null,
    revision: 1,
    createToken,
    changeToken: null,
    requestHash: null,
    traceparent,
    createdAt: now,
    updatedAt: now,
  };
}

/** In the list of its queue and in that of all. */
export function listEntries(
  { queue, scheduleId }: Pick<ScheduleRow, 'queue' | 'scheduleId'>,
  writtenAt: EpochMs,
): readonly ScheduleIndexEntry[] {
  return [queue, ALL_QUEUES].map((list) => ({ queue: list, scheduleId, writtenAt }));
}

/** No schedule's id, in the form of one. */
const EXAMPLE_ID = memberId(scheduleCohort(new Uint8Array(COHORT_ENTROPY_BYTES)), 0);

/** A schedule that is only looked at: its slots are those of the definition, but what hashes its id is an example. */
export function previewRow(definition: ScheduleDefinition, now: EpochMs): ScheduleRow {
  return newScheduleRow(EXAMPLE_ID, anchored(definition, now), {
    owner: '',
    name: null,
    nextRunAt: now,
    now,
    shards: 1,
    createToken: '',
    traceparent: null,
  });
}
