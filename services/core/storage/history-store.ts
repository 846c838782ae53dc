import { dayOf, historyStripe, hourOf } from '../domain/bucket.ts';
import { DAY_MS, DEAD_RETENTION_DEFAULT_DAYS, RETENTION_DEFAULT_DAYS, SECOND_MS } from '../domain/limits.ts';
import type { DeadLetter, FinishedJob, HistoryStore } from '../ports/history-store.ts';
import {
  type DeadLetterQueue,
  readDeadLetterQueues,
  readDeadLetters,
  writeDeadLetter,
  writeDeadLetterQueue,
  writeFinished,
} from './cql/history-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { number, text, textOrNull, time } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export interface Retention {
  readonly finishedDays: number;
  readonly deadDays: number;
}

export const RETENTION_DEFAULT: Retention = {
  finishedDays: RETENTION_DEFAULT_DAYS,
  deadDays: DEAD_RETENTION_DEFAULT_DAYS,
};

const NAMED_MAX = 10_000;

export function createHistoryStore(session: Session, retention: Retention): HistoryStore {
  const finished = new PartitionWriter<FinishedJob>(
    (row) => `${row.queue} ${hourOf(row.finishedAt)} ${historyStripe(row.jobId)}`,
    (rows) => session.write(rows.map((row) => writeFinished(row, seconds(retention.finishedDays)))),
  );
  const deadLetters = new PartitionWriter<DeadLetter>(
    (row) => `${row.queue} ${dayOf(row.deadAt)}`,
    (rows) => session.write(rows.map((row) => writeDeadLetter(row, seconds(retention.deadDays)))),
  );
  const queues = new PartitionWriter<DeadLetterQueue>(
    ({ day }) => day,
    (rows) => session.write(rows.map((row) => writeDeadLetterQueue(row, seconds(retention.deadDays + 1)))),
  );
  /** Where letters of the last days are known to be looked for. */
  const named = new Set<string>();
  const nameQueues = async (rows: readonly DeadLetter[]): Promise<void> => {
    const all = new Map(rows.map(({ queue, deadAt }) => [`${dayOf(deadAt)} ${queue}`, { queue, day: dayOf(deadAt) }]));
    const unnamed = [...all].filter(([key]) => !named.has(key));
    await queues.write(unnamed.map(([, row]) => row));
    if (named.size + unnamed.length > NAMED_MAX) named.clear();
    for (const [key] of unnamed) named.add(key);
  };
  return {
    writeFinished: (rows) => finished.write(rows),
    async writeDeadLetters(rows) {
      await nameQueues(rows);
      await deadLetters.write(rows);
    },
    async deadLetterQueues(day) {
      return (await session.read(readDeadLetterQueues(dayOf(day)))).map((row) => text(row, 'queue'));
    },
    async *readDeadLetters(range) {
      for await (const rows of session.pages(readDeadLetters(range))) yield rows.map(decodeDeadLetter);
    },
  };
}

function decodeDeadLetter(row: Row): DeadLetter {
  return {
    jobId: text(row, 'job_id'),
    queue: text(row, 'queue'),
    deadAt: time(row, 'dead_at'),
    attempt: number(row, 'attempt'),
    reason: text(row, 'reason'),
    error: textOrNull(row, 'error'),
  };
}

function seconds(days: number): number {
  return (days * DAY_MS) / SECOND_MS;
}
