import type { Problem } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { isTerminal, JobStatus, Outcome } from '../../core/domain/job-status.ts';

export function jobNotFound(jobId: string): Problem {
  return { code: 'job_not_found', detail: `There is no job ${jobId}. It may have been removed after its retention.` };
}

/** Why an attempt (the number the caller names) may not claim, heartbeat or report on the row as it is. */
export function attemptRefused(row: JobRow, attempt: number): Problem {
  const members = { current_attempt: row.attempt, job_status: row.status };
  if (row.ends.get(attempt)?.outcome === Outcome.timedOut || ranOut(row, attempt)) {
    return {
      code: 'attempt_timed_out',
      detail: `Attempt ${attempt} ran past the job's timeout_s of ${row.timeoutS}. Stop working on it.`,
      members,
    };
  }
  if (isTerminal(row.status)) {
    return { code: 'job_finished', detail: `The job is ${row.status} already. Stop working on it.`, members };
  }
  return {
    code: 'lease_lost',
    detail: `Attempt ${attempt} does not hold this job: it is ${row.status}, at attempt ${row.attempt}. Stop working on it.`,
    members,
  };
}

export function queuePaused(queue: string): Problem {
  return {
    code: 'queue_paused',
    detail: `The queue ${queue} is paused. The job waits, and comes again once the queue is resumed. Leave it.`,
  };
}

export function queueAtLimit(queue: string): Problem {
  return {
    code: 'queue_at_limit',
    detail: `The queue ${queue} runs as many jobs as its max_running allows. The job waits, and comes again. Leave it.`,
  };
}

export function queueOverRate(queue: string): Problem {
  return {
    code: 'queue_over_rate',
    detail: `More jobs of the queue ${queue} were handed out than its rate_per_s allows. The job waits, and comes again. Leave it.`,
  };
}

/** The queue does not let the job start now: it waits for the queue again, and another message. */
export function isHeldBack({ code }: Problem): boolean {
  return code === 'queue_paused' || code === 'queue_at_limit' || code === 'queue_over_rate';
}

/** The attempt still stands in the row, yet Cassandra's clock refused the report: its deadline is over. */
function ranOut(row: JobRow, attempt: number): boolean {
  return row.status === JobStatus.running && row.attempt === attempt;
}
