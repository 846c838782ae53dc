import { cohortOf } from '../domain/ids.ts';
import type { RingPart, RingStore } from '../ports/ring-store.ts';
import { chunks } from '../domain/chunks.ts';
import {
  deadLetterDayOf,
  dueMinuteOf,
  existingJobs,
  historyHourOf,
  recordedEnds,
  SCAN,
  scanPart,
  standingDeadLetters,
  standingDue,
} from './cql/ring-statements.ts';
import { decodeOperation } from './operation-store.ts';
import { decodeJob, text } from './row-codec.ts';
import { decodeSchedule } from './schedule-codec.ts';
import type { Session } from './session.ts';
import type { Bound, Row } from './statement.ts';
import { decodeDeadline, decodeDue } from './timer-store.ts';

/** Reads of one partition by key go at most so many rows at once. */
const PLACES_MAX = 64;
/** Reads by key under way at once: a check goes beside the real work. */
const READS_AT_ONCE = 8;

export function createRingStore(session: Session): RingStore {
  const scan = <Stored>(cql: string, decode: (row: Row) => Stored | null) =>
    async function* (part: RingPart): AsyncGenerator<readonly Stored[]> {
      for await (const rows of session.pages(scanPart(cql, part), { pageRows: part.pageRows })) {
        yield rows.map(decode).filter((stored) => stored !== null);
      }
    };
  const standing =
    <Place>(partitionOf: (place: Place) => string, statement: (places: readonly [Place, ...Place[]]) => Bound) =>
    (places: readonly Place[]) =>
      idsFound(
        session,
        [...Map.groupBy(places, partitionOf).values()].flatMap((members) => chunks(members, PLACES_MAX)),
        statement,
      );
  return {
    jobs: scan(SCAN.jobs, decodeJob),
    schedules: scan(SCAN.schedules, decodeSchedule),
    operations: scan(SCAN.operations, decodeOperation),
    due: scan(SCAN.due, decodeDue),
    deadlines: scan(SCAN.deadlines, decodeDeadline),
    standingDue: standing(dueMinuteOf, standingDue),
    recordedEnds: standing(historyHourOf, recordedEnds),
    deadLetters: standing(deadLetterDayOf, standingDeadLetters),
    existingJobs: standing(cohortOf, ([first, ...others]) => existingJobs(cohortOf(first), [first, ...others])),
  };
}

/** Of each chunk one read; all rows that they find. */
async function idsFound<Place>(
  session: Session,
  chunksLeft: (readonly [Place, ...Place[]])[],
  statement: (places: readonly [Place, ...Place[]]) => Bound,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  await Promise.all(
    Array.from({ length: READS_AT_ONCE }, async () => {
      for (let chunk = chunksLeft.pop(); chunk !== undefined; chunk = chunksLeft.pop()) {
        for (const row of await session.read(statement(chunk))) found.add(text(row, 'job_id'));
      }
    }),
  );
  return found;
}
