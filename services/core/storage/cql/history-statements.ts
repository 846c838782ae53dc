import { types } from 'cassandra-driver';
import { dayOf, historyStripe, hourOf } from '../../domain/bucket.ts';
import type { DeadLetter, DeadLetterRange, FinishedJob } from '../../ports/history-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

export interface DeadLetterQueue {
  readonly queue: string;
  /** As dayOf has it. */
  readonly day: string;
}

// `job_history`, `dead_letters` and `dead_letter_queues`: plain idempotent writes with a TTL, LOCAL_QUORUM (session.write).

const WRITE_FINISHED = `
  INSERT INTO job_history (queue, hour, stripe, finished_at, job_id, priority, status, outcome, attempt, scheduled_for,
    lag_ms, error)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL ?`;

const WRITE_DEAD_LETTER = `
  INSERT INTO dead_letters (queue, day, dead_at, job_id, attempt, reason, error)
  VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?`;

const READ_DEAD_LETTERS = `
  SELECT queue, dead_at, job_id, attempt, reason, error FROM dead_letters
  WHERE queue = ? AND day = ? AND dead_at >= ? AND dead_at < ?`;

const WRITE_DEAD_LETTER_QUEUE = `INSERT INTO dead_letter_queues (day, queue) VALUES (?, ?) USING TTL ?`;

const READ_DEAD_LETTER_QUEUES = `SELECT queue FROM dead_letter_queues WHERE day = ?`;

export const HISTORY_STATEMENTS: readonly string[] = [
  WRITE_FINISHED,
  WRITE_DEAD_LETTER,
  READ_DEAD_LETTERS,
  WRITE_DEAD_LETTER_QUEUE,
  READ_DEAD_LETTER_QUEUES,
];

export function writeDeadLetterQueue({ queue, day }: DeadLetterQueue, ttlS: number): Bound {
  return { cql: WRITE_DEAD_LETTER_QUEUE, values: [types.LocalDate.fromString(day), queue, ttlS] };
}

export function readDeadLetterQueues(day: string): Bound {
  return { cql: READ_DEAD_LETTER_QUEUES, values: [types.LocalDate.fromString(day)] };
}

export function readDeadLetters({ queue, from, to }: DeadLetterRange): Bound {
  const day = types.LocalDate.fromString(dayOf(from));
  return { cql: READ_DEAD_LETTERS, values: [queue, day, timestamp(from), timestamp(to)] };
}

export function writeFinished(row: FinishedJob, ttlS: number): Bound {
  return {
    cql: WRITE_FINISHED,
    values: [
      row.queue,
      timestamp(hourOf(row.finishedAt)),
      historyStripe(row.jobId),
      timestamp(row.finishedAt),
      row.jobId,
      row.priority,
      row.status,
      row.outcome,
      row.attempt,
      timestamp(row.scheduledFor),
      row.lagMs ?? undefined,
      row.error ?? undefined,
      ttlS,
    ],
  };
}

export function writeDeadLetter(row: DeadLetter, ttlS: number): Bound {
  return {
    cql: WRITE_DEAD_LETTER,
    values: [
      row.queue,
      types.LocalDate.fromString(dayOf(row.deadAt)),
      timestamp(row.deadAt),
      row.jobId,
      row.attempt,
      row.reason,
      row.error ?? undefined,
      ttlS,
    ],
  };
}
