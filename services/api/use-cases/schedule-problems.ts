import { type Problem, refused } from '../../core/contract/problems.ts';
import type { ScheduleOutcome } from '../../core/moves/write-schedule.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import { problemOfRound } from './store-problems.ts';

export function scheduleNotFound(reference: string): Problem {
  return { code: 'schedule_not_found', detail: `There is no schedule ${reference}. It may have been deleted.` };
}

export function scheduleEnded({ scheduleId }: ScheduleRow): Problem {
  return { code: 'schedule_ended', detail: `No slot of ${scheduleId} follows; nothing was changed.` };
}

export function schedulePaused({ scheduleId }: ScheduleRow): Problem {
  return { code: 'schedule_paused', detail: `${scheduleId} is paused, so no slot is next; nothing was changed.` };
}

export function changedAgainAndAgain(schedule: string): Problem {
  return {
    code: 'changed_meanwhile',
    detail: `Others keep changing ${schedule}; nothing was changed by this request.`,
  };
}

export function changedMeanwhile(row: ScheduleRow, revision: number): Problem {
  return {
    code: 'changed_meanwhile',
    detail: `The schedule is at revision ${row.revision}, not ${revision}; nothing was changed.`,
    members: { revision: row.revision },
  };
}

/** If-Match on a name without a schedule. */
export function nothingToChange(name: string): Problem {
  return {
    code: 'changed_meanwhile',
    detail: `There is no schedule ${name}, so it has no revision; nothing was changed.`,
  };
}

export function neverFires(): Problem {
  const message = 'leaves no slot: none lies after now and start_at, and up to end_at';
  return { code: 'invalid_request', detail: `end_at: ${message}`, errors: [{ field: 'end_at', message }] };
}

export function problemOfWrite(
  outcome: Extract<ScheduleOutcome, { kind: 'unknown' | 'not_written' }>,
): ReturnType<typeof refused> {
  return refused(problemOfRound(outcome));
}
