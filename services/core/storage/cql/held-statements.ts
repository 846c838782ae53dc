import { hourOf } from '../../domain/bucket.ts';
import { DAY_MS, SECOND_MS } from '../../domain/limits.ts';
import type { DueEntry } from '../../domain/operation.ts';
import type { HeldHour, HeldPlace, HeldPosition } from '../../ports/held-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `held`, `held_queues`, `held_positions`: plain idempotent writes, LOCAL_QUORUM (session.write, session.read).

const WRITE_HELD = `INSERT INTO held (shard, queue, priority, hour, run_at, job_id, attempt) VALUES (?, ?, ?, ?, ?, ?, ?)`;

const READ_HELD = `
  SELECT run_at, job_id, attempt FROM held
  WHERE shard = ? AND queue = ? AND priority = ? AND hour = ? AND (run_at, job_id) > (?, ?) LIMIT ?`;

const READ_STANDING = `
  SELECT run_at, job_id FROM held
  WHERE shard = ? AND queue = ? AND priority = ? AND hour = ? AND (run_at, job_id) >= (?, ?) AND (run_at, job_id) <= (?, ?)`;

const COUNT_HELD = `
  SELECT COUNT(*) AS held FROM held
  WHERE shard = ? AND queue = ? AND priority = ? AND hour = ? AND (run_at, job_id) > (?, ?)`;

const DROP_HELD = `DELETE FROM held WHERE shard = ? AND queue = ? AND priority = ? AND hour = ?`;

const WRITE_HOUR = `INSERT INTO held_queues (shard, queue, priority, hour) VALUES (?, ?, ?, ?)`;

const READ_HOURS = `SELECT queue, priority, hour FROM held_queues WHERE shard = ?`;

const DROP_HOUR = `DELETE FROM held_queues WHERE shard = ? AND queue = ? AND priority = ? AND hour = ?`;

const SAVE_POSITION = `
  INSERT INTO held_positions (shard, queue, priority, run_at, job_id) VALUES (?, ?, ?, ?, ?) USING TTL ?`;

const READ_POSITIONS = `SELECT queue, priority, run_at, job_id FROM held_positions WHERE shard = ?`;

export const HELD_STATEMENTS: readonly string[] = [
  WRITE_HELD,
  READ_HELD,
  READ_STANDING,
  COUNT_HELD,
  DROP_HELD,
  WRITE_HOUR,
  READ_HOURS,
  DROP_HOUR,
  SAVE_POSITION,
  READ_POSITIONS,
];

/** A lane at which nothing moved for so long begins anew: it only costs reads. */
const POSITION_KEPT_S = (30 * DAY_MS) / SECOND_MS;

export function writeHeld(row: DueEntry): Bound {
  const { shard, queue, priority, runAt, jobId, attempt } = row;
  return {
    cql: WRITE_HELD,
    values: [shard, queue, priority, timestamp(hourOf(runAt)), timestamp(runAt), jobId, attempt],
  };
}

export function readHeld(hour: HeldHour, after: HeldPlace, limit: number): Bound {
  return { cql: READ_HELD, values: [...hourValues(hour), ...placeValues(after), limit] };
}

export function readStanding(hour: HeldHour, from: HeldPlace, to: HeldPlace): Bound {
  return { cql: READ_STANDING, values: [...hourValues(hour), ...placeValues(from), ...placeValues(to)] };
}

export function countHeld(hour: HeldHour, after: HeldPlace): Bound {
  return { cql: COUNT_HELD, values: [...hourValues(hour), ...placeValues(after)] };
}

export function dropHeld(hour: HeldHour): Bound {
  return { cql: DROP_HELD, values: hourValues(hour) };
}

export function writeHour(hour: HeldHour): Bound {
  return { cql: WRITE_HOUR, values: hourValues(hour) };
}

export function readHours(shard: number): Bound {
  return { cql: READ_HOURS, values: [shard] };
}

export function dropHour(hour: HeldHour): Bound {
  return { cql: DROP_HOUR, values: hourValues(hour) };
}

export function savePosition({ shard, queue, priority, place }: HeldPosition): Bound {
  const { runAt, jobId } = place;
  return { cql: SAVE_POSITION, values: [shard, queue, priority, timestamp(runAt), jobId, POSITION_KEPT_S] };
}

export function readPositions(shard: number): Bound {
  return { cql: READ_POSITIONS, values: [shard] };
}

function hourValues({ shard, queue, priority, hour }: HeldHour): unknown[] {
  return [shard, queue, priority, timestamp(hour)];
}

function placeValues({ runAt, jobId }: HeldPlace): unknown[] {
  return [timestamp(runAt), jobId];
}
