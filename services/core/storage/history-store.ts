import { dayOf, historyStripe, hourOf } from '../domain/bucket.ts';
import { DAY_MS, RETENTION_MAX_DAYS, SECOND_MS } from '../domain/limits.ts';
import type { RetentionTerms } from '../domain/queue-settings.ts';
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

const NAMED_MAX = 10_000;
/** A name is written once a day and outlives all letters of that day, also where the queue's retention has grown. */
const NAME_KEPT_DAYS = RETENTION_MAX_DAYS + 1;

/** @param retentionOf what a queue's settings say when its rows are written. */
export function createHistoryStore(session: Session, retentionOf: (queue: string) => RetentionTerms): HistoryStore {
  const finished = new PartitionWriter<FinishedJob>(
    (row) => `${row.queue} ${hourOf(row.finishedAt)} ${historyStripe(row.jobId)}`,
    (rows) => session.write(rows.map((row) => writeFinished(row, seconds(retentionOf(row.queue).finishedDays)))),
  );
  const deadLetters = new PartitionWriter<DeadLetter>(
    (row) => `${row.queue} ${dayOf(row.deadAt)}`,
    (rows) => session.write(rows.map((row) => writeDeadLetter(row, seconds(retentionOf(row.queue).deadDays)))),
  );
  const queues = new PartitionWriter<DeadLetterQueue>(
    ({ day }) => day,
    (rows) => session.write(rows.map((row) => writeDeadLetterQueue(row, seconds(NAME_KEPT_DAYS)))),
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
