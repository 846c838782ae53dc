import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { isPaused } from '../../core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Random } from '../../core/ports/random.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { ScheduleChanger } from './change-schedule.ts';
import type { ScheduleLister } from './list-schedules.ts';
import type { ChangedSchedules, ChangeSchedules, Pause } from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export interface ChangeSchedulesParts {
  readonly lister: ScheduleLister;
  readonly changer: ScheduleChanger;
  readonly trail: AuditTrail;
  readonly random: Random;
  readonly clock: Clock;
}

/** Schedules looked at in one call: some seconds, where all of them are to be changed. */
const LOOKED_PER_CALL_MAX = 5_000;

/** Pauses and resumes schedules by label and queue. Whatever is repeated finds what is done already. */
export class SchedulesChanger {
  readonly #parts: ChangeSchedulesParts;

  constructor(parts: ChangeSchedulesParts) {
    this.#parts = parts;
  }

  change({ owner, filter, pause, dryRun, after }: ChangeSchedules): Promise<Result<ChangedSchedules>> {
    return withStore(async () => {
      let [matched, changed, looked] = [0, 0, 0];
      let next: string | null = after ?? '';
      while (next !== null && looked < LOOKED_PER_CALL_MAX) {
        const scanned = await this.#parts.lister.scan({ ...filter, paused: null }, next, Infinity);
        const rows = scanned.rows.filter((row) => this.#isToChange(row, pause));
        const results = dryRun ? [] : await Promise.all(rows.map((row) => this.#changeOne(row, pause)));
        // What the store could not take is taken up by the same call again.
        const failed = results.find((result) => !result.ok && result.problem.code !== 'schedule_not_found');
        if (failed?.ok === false) return refused(failed.problem);
        matched += scanned.rows.length;
        changed += dryRun ? rows.length : results.filter((result) => result.ok).length;
        looked += scanned.looked;
        next = scanned.next;
      }
      if (changed > 0 && !dryRun) await this.#record(owner, { filter, pause }, changed);
      return ok({ matched, changed, next });
    });
  }

  #record(owner: string, { filter, pause }: Pick<ChangeSchedules, 'filter' | 'pause'>, changed: number): Promise<void> {
    const { trail, random, clock } = this.#parts;
    return trail.record({
      ...{ at: clock.now(), entryId: random.token(), owner },
      verb: pause === null ? 'schedules.resume' : 'schedules.pause',
      subject: filter.queue ?? '',
      detail: { ...filter, ...pause, changed },
    });
  }

  #isToChange(row: ScheduleRow, pause: Pause | null): boolean {
    const isNow = isPaused(row, this.#parts.clock.now());
    if (pause === null) return isNow;
    return !isNow || row.pausedReason !== pause.reason || row.pausedUntil !== pause.until;
  }

  #changeOne(row: ScheduleRow, pause: Pause | null): Promise<Result<ScheduleRow>> {
    const { changer } = this.#parts;
    return pause === null ? changer.resumeRow(row) : changer.pauseRow(row, pause);
  }
}
