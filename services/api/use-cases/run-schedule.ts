import { createHash } from 'node:crypto';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import { BACKFILL_SLOTS_MAX } from '../../core/domain/limits.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import { timetableOf } from '../../core/domain/timetable.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Random } from '../../core/ports/random.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { JobCreator } from './create-job.ts';
import type { ScheduleFinder } from './find-schedules.ts';
import type { Backfill, BackfilledSlot, ScheduleReference } from './schedule-types.ts';
import { withStore } from './store-problems.ts';
import type { CreatedJob, CreateJob } from './types.ts';

export interface RunScheduleParts {
  readonly finder: ScheduleFinder;
  readonly creator: JobCreator;
  readonly trail: AuditTrail;
  readonly random: Random;
  readonly clock: Clock;
}

/** Jobs with a schedule's work beside its slots: run now, and backfill. */
export class ScheduleRunner {
  readonly #parts: RunScheduleParts;

  constructor(parts: RunScheduleParts) {
    this.#parts = parts;
  }

  runNow(reference: ScheduleReference, idempotencyKey: string | null): Promise<Result<CreatedJob>> {
    const { finder, creator, clock } = this.#parts;
    return withStore(async () => {
      const found = await finder.find(reference);
      if (!found.ok) return found;
      const { value: row } = found;
      const requestHash = idempotencyKey === null ? null : sha256(row.scheduleId);
      const job = jobOf(row, { at: clock.now(), idempotencyKey, requestHash });
      const result = await creator.create(job, `POST /schedules/${row.scheduleId}/run`);
      if (result.ok && !result.value.replayed)
        await this.#record('schedule.run', row, { job_id: result.value.job.jobId });
      return result;
    });
  }

  backfill(reference: ScheduleReference, request: Backfill): Promise<Result<readonly BackfilledSlot[]>> {
    const { finder, creator } = this.#parts;
    const { idempotencyKey, requestHash, dryRun } = request;
    return withStore(async () => {
      const found = await finder.find(reference);
      if (!found.ok) return found;
      const { value: row } = found;
      const slots = slotsOf(row, request);
      if (slots === null) return refused(tooManySlots());
      if (dryRun) return ok(slots.map((slot) => ({ slot, job: null })));
      const results = await creator.createBatch(
        {
          owner: reference.owner,
          idempotencyKey,
          // The items are the slots: under another timetable they would be others.
          requestHash: requestHash === null ? null : sha256(`${requestHash} ${slots.join(' ')}`),
          jobs: slots.map((at) => ok(jobOf(row, { at, idempotencyKey: null, requestHash: null }))),
        },
        `POST /schedules/${row.scheduleId}/backfill`,
      );
      if (!results.ok) return results;
      const created = results.value.filter((result) => result.ok && !result.value.replayed).length;
      if (created > 0) await this.#record('schedule.backfill', row, { from: request.from, to: request.to, created });
      return ok(results.value.map((job, index) => ({ slot: slots[index] ?? 0, job })));
    });
  }

  #record(verb: string, row: ScheduleRow, detail: Readonly<Record<string, unknown>>): Promise<void> {
    const { trail, random, clock } = this.#parts;
    const { owner, scheduleId: subject } = row;
    return trail.record({ at: clock.now(), entryId: random.token(), owner, verb, subject, detail });
  }
}

/** Null: more than may be asked for at once. */
function slotsOf(row: ScheduleRow, { from, to }: Backfill): readonly EpochMs[] | null {
  const timetable = timetableOf(row, row.scheduleId);
  const slots: EpochMs[] = [];
  for (let slot = timetable.next(from - 1); slot !== null && slot < to; slot = timetable.next(slot)) {
    if (slots.length >= BACKFILL_SLOTS_MAX) return null;
    slots.push(slot);
  }
  return slots;
}

function tooManySlots(): Problem {
  const message = `leaves more than ${BACKFILL_SLOTS_MAX} slots; ask for one shorter time after the other`;
  return { code: 'invalid_request', detail: `to: ${message}`, errors: [{ field: 'to', message }] };
}

/** A plain job of the schedule. @param at the time asked for: now, or a slot that has passed. */
function jobOf(
  row: ScheduleRow,
  { at, ...key }: { readonly at: EpochMs } & Pick<CreateJob, 'idempotencyKey' | 'requestHash'>,
): CreateJob {
  return {
    ...key,
    owner: row.owner,
    queue: row.queue,
    priority: row.priority,
    payload: row.payload,
    payloadBytes: row.payloadBytes,
    when: { at },
    jitterMs: 0,
    maxAttempts: row.maxAttempts,
    timeoutS: row.timeoutS,
    leaseS: row.leaseS,
    retry: row.retry,
    labels: row.labels,
    expiresAt: null,
    scheduleId: row.scheduleId,
    traceparent: row.traceparent,
  };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
