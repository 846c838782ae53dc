import { bucketOf } from '../domain/bucket.ts';
import type { Priority } from '../domain/job-status.ts';
import type { DeadlineEntry, DueEntry } from '../domain/operation.ts';
import type { CursorStore, TimerRange, TimerStore } from '../ports/timer-store.ts';
import {
  dropDeadlines,
  dropDue,
  findDeadlines,
  findDue,
  loadCursor,
  NEVER_PUBLISHED,
  readDeadlines,
  readDue,
  saveCursor,
  writeDeadline,
  writeDue,
} from './cql/timer-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { QuietShards } from './quiet-shards.ts';
import { flag, number, text, time, timeOrNull } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Bound, Row } from './statement.ts';

export function createTimerStore(session: Session): TimerStore {
  const due = new PartitionWriter<DueEntry>(
    (row) => `${row.shard} ${bucketOf(row.runAt)}`,
    (rows) => session.write(rows.map(writeDue)),
  );
  const deadlines = new PartitionWriter<DeadlineEntry>(
    (row) => `${row.shard} ${bucketOf(row.at)}`,
    (rows) => session.write(rows.map(writeDeadline)),
  );
  const shardsOf = async (statement: Bound): Promise<readonly number[]> =>
    (await session.read(statement)).map((row) => number(row, 'shard'));
  const quietDue = new QuietShards((shards, range) => shardsOf(findDue(shards, range)));
  const quietDeadlines = new QuietShards((shards, range) => shardsOf(findDeadlines(shards, range)));
  return {
    writeDue: (rows) => due.write(rows),
    writeDeadlines: (rows) => deadlines.write(rows),
    readDue: (range) => readRows({ session, quiet: quietDue, range, statement: readDue(range), decode: decodeDue }),
    readDeadlines: (range) =>
      readRows({ session, quiet: quietDeadlines, range, statement: readDeadlines(range), decode: decodeDeadline }),
    dropDue: (minute, rows) => session.write(dropDue(minute, rows)),
    dropDeadlines: (minute, rows) => session.write(dropDeadlines(minute, rows)),
  };
}

export function createCursorStore(session: Session): CursorStore {
  return {
    async load(role, shard) {
      const [row] = await session.read(loadCursor(role, shard));
      return row === undefined ? null : timeOrNull(row, 'position');
    },
    save: (role, shard, position) => session.write([saveCursor(role, shard, position)]),
  };
}

async function* readRows<Entry>({
  session,
  quiet,
  range,
  statement,
  decode,
}: {
  readonly session: Session;
  readonly quiet: QuietShards;
  readonly range: TimerRange;
  readonly statement: Bound;
  readonly decode: (row: Row) => Entry;
}): AsyncGenerator<readonly Entry[], void, undefined> {
  if (await quiet.isEmpty(range)) return;
  let found = 0;
  for await (const rows of session.pages(statement)) {
    found += rows.length;
    quiet.found(range.shard, found);
    yield rows.map(decode);
  }
  if (found === 0) quiet.found(range.shard, found);
}

export function decodeDue(row: Row): DueEntry {
  return {
    jobId: text(row, 'job_id'),
    shard: number(row, 'shard'),
    runAt: time(row, 'run_at'),
    queue: text(row, 'queue'),
    priority: text(row, 'priority') as Priority,
    attempt: number(row, 'attempt'),
    direct: flag(row, 'direct'),
  };
}

export function decodeDeadline(row: Row): DeadlineEntry {
  const publishedAt = timeOrNull(row, 'published_at');
  return {
    jobId: text(row, 'job_id'),
    shard: number(row, 'shard'),
    at: time(row, 'at'),
    publishedAt: publishedAt === NEVER_PUBLISHED ? null : publishedAt,
  };
}
