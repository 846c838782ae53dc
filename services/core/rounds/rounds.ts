import { storePauseMs } from '../domain/backoff.ts';
import { cohortOf } from '../domain/ids.ts';
import type { JobRow } from '../domain/job.ts';
import { OPERATION_DEADLINE_MS, ROUND_MAX_BYTES, ROUND_MAX_ROWS, SECOND_MS } from '../domain/limits.ts';
import {
  bearsMark,
  judgeCondition,
  operationBytes,
  type ConditionColumns,
  type ConditionVerdict,
  type Edge,
  type Operation,
} from '../domain/operation.ts';
import {
  bearsScheduleMark,
  judgeScheduleCondition,
  scheduleOperationBytes,
  type ScheduleConditionColumns,
  type ScheduleEdge,
  type ScheduleOperation,
} from '../domain/schedule-operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { CohortReader, CohortTable } from '../ports/cohort-table.ts';
import { StoreError } from '../ports/store-error.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/** How a conditional write ended. Losing is a value that carries the row found; unknown is a third outcome (design section 4). */
export type RoundOutcome<Row = JobRow> =
  /** With the row where only its mark told it: this call or an earlier one of the same content wrote it, and more may have followed. */
  | { readonly kind: 'applied'; readonly row?: Row }
  /** The condition did not hold; the row as a LOCAL_SERIAL read found it, null when there is none. */
  | { readonly kind: 'lost'; readonly row: Row | null }
  /** It may have applied, and may still: never retry under another id. */
  | { readonly kind: 'unknown'; readonly cause: unknown }
  /** Surely not written. `expired`: it waited past its deadline and was dropped, not sent. */
  | {
      readonly kind: 'not_written';
      readonly reason: 'unavailable' | 'overloaded' | 'invalid' | 'expired';
      readonly cause: unknown;
    };

export interface SubmitOptions {
  /** How long the operation may wait, be sent and be settled; OPERATION_DEADLINE_MS when absent. */
  readonly deadlineMs?: number;
}

interface Pending<Operation, Row> {
  readonly id: string;
  readonly operation: Operation;
  readonly submittedAt: MonotonicMs;
  readonly deadlineMs: number;
  readonly answer: (outcome: RoundOutcome<Row>) => void;
  /** An earlier round with it ended without an answer: from then on it can only end applied, lost or unknown. */
  maybeApplied: boolean;
  /** Sent in a round of its own: either poisonous to its neighbours, or judged by a clock that only the server has. */
  alone: boolean;
}

interface Line<Operation, Row> {
  waiting: Pending<Operation, Row>[];
  failures: number;
}

/** What rounds must know of the operations on one table. */
interface TableRules<Operation, Row, Columns> {
  readonly idOf: (operation: Operation) => string;
  readonly edgeOf: (operation: Operation) => Edge | ScheduleEdge;
  readonly isCreate: (operation: Operation) => boolean;
  readonly bytesOf: (operation: Operation) => number;
  readonly judge: (operation: Operation, row: Columns | undefined) => ConditionVerdict;
  readonly bearsMark: (operation: Operation, row: Row) => boolean;
}

interface RoundsParts<Operation, Row, Columns> {
  readonly store: CohortTable<Operation, Columns>;
  readonly reader: CohortReader<Row>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** Called as a round on the cohort starts: the api closes the cohorts of due-now jobs then. */
  readonly onStart?: (cohort: string) => void;
}

/**
 * All conditional writes of a table pass here. Per cohort one round is in flight; operations that arrive meanwhile share the next
 * one, so idle cohorts write at once and busy ones batch by themselves, without any timer. A Paxos round costs about the
 * same for 1 row as for 64 rows of one partition.
 */
class CohortRounds<Operation, Row, Columns> {
  readonly #rules: TableRules<Operation, Row, Columns>;
  readonly #store: CohortTable<Operation, Columns>;
  readonly #reader: CohortReader<Row>;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #lines = new Map<string, Line<Operation, Row>>();
  readonly #onStart: ((cohort: string) => void) | undefined;

  protected constructor(parts: RoundsParts<Operation, Row, Columns>, rules: TableRules<Operation, Row, Columns>) {
    this.#rules = rules;
    this.#store = parts.store;
    this.#reader = parts.reader;
    this.#clock = parts.clock;
    this.#telemetry = parts.telemetry;
    this.#onStart = parts.onStart;
  }

  /** Never rejects. Operations submitted in one turn of the event loop share their cohort's next round. */
  submit(operation: Operation, options: SubmitOptions = {}): Promise<RoundOutcome<Row>> {
    const id = this.#rules.idOf(operation);
    const cohort = cohortOf(id);
    return new Promise((answer) => {
      const pending: Pending<Operation, Row> = {
        id,
        operation,
        submittedAt: this.#clock.monotonic(),
        deadlineMs: options.deadlineMs ?? OPERATION_DEADLINE_MS,
        answer,
        maybeApplied: false,
        alone: false,
      };
      const line = this.#lines.get(cohort);
      if (line !== undefined) {
        line.waiting.push(pending);
        return;
      }
      const opened: Line<Operation, Row> = { waiting: [pending], failures: 0 };
      this.#lines.set(cohort, opened);
      queueMicrotask(() => void this.#drain(cohort, opened));
    });
  }

  async #drain(cohort: string, line: Line<Operation, Row>): Promise<void> {
    while (line.waiting.length > 0) {
      this.#dropExpired(line);
      const batch = this.#takeBatch(line);
      if (batch.length === 0) continue;
      const again = await this.#round(cohort, batch, line);
      line.waiting.unshift(...again);
      if (again.length > 0 && line.failures > 0) {
        await this.#clock.sleep(storePauseMs(line.failures));
      }
    }
    this.#lines.delete(cohort);
  }

  /** Sends one round and answers what it settles; returns the operations that must be sent again. */
  async #round(
    cohort: string,
    batch: readonly Pending<Operation, Row>[],
    line: Line<Operation, Row>,
  ): Promise<readonly Pending<Operation, Row>[]> {
    const operations = batch.map((pending) => pending.operation);
    assertOneOperationPerRow(batch);
    this.#onStart?.(cohort);
    const startedAt = this.#clock.monotonic();
    try {
      const result = await this.#store.apply(cohort, operations);
      line.failures = 0;
      this.#measure(batch, startedAt, result.applied ? 'applied' : 'lost');
      if (!result.applied) return this.#separate(batch, result.rows);
      for (const pending of batch) pending.answer({ kind: 'applied' });
      return [];
    } catch (thrown) {
      // A fault of our own after the send (a row that cannot be decoded) tells as little as a lost answer.
      const error =
        thrown instanceof StoreError ? thrown : new StoreError('unknown', String(thrown), { cause: thrown });
      line.failures += 1;
      this.#measure(batch, startedAt, error.kind === 'unknown' ? 'unknown' : 'not_written');
      return this.#afterError(batch, error);
    }
  }

  /**
   * A failed batch changed nothing. Those whose own condition fails have lost; the others are sent again at once. Where
   * only the server's clock can have failed, a round of its own gives the verdict.
   */
  #separate(
    batch: readonly Pending<Operation, Row>[],
    rows: ReadonlyMap<string, Columns>,
  ): readonly Pending<Operation, Row>[] {
    const lost: Pending<Operation, Row>[] = [];
    const again: Pending<Operation, Row>[] = [];
    for (const pending of batch) {
      const verdict = this.#rules.judge(pending.operation, rows.get(pending.id));
      if (verdict === 'fails' || batch.length === 1) lost.push(pending);
      else again.push(pending);
    }
    if (lost.length === 0) for (const pending of again) pending.alone = true;
    if (lost.length > 0) void this.#answerLost(lost);
    return again;
  }

  /** Reads the whole rows before answering: one that bears our own mark was applied by an earlier, unanswered round. */
  async #answerLost(lost: readonly Pending<Operation, Row>[]): Promise<void> {
    let unread = lost;
    for (let failures = 0; ; failures += 1) {
      try {
        const rows = await this.#readSerial(unread);
        for (const pending of unread) {
          const row = rows.get(pending.id);
          if (row !== undefined && this.#rules.bearsMark(pending.operation, row))
            pending.answer({ kind: 'applied', row });
          else pending.answer({ kind: 'lost', row: row ?? null });
        }
        return;
      } catch (cause) {
        for (const pending of unread) if (this.#expired(pending)) pending.answer({ kind: 'unknown', cause });
        unread = unread.filter((pending) => !this.#expired(pending));
        if (unread.length === 0) return;
        await this.#clock.sleep(storePauseMs(failures + 1));
      }
    }
  }

  async #afterError(
    batch: readonly Pending<Operation, Row>[],
    error: StoreError,
  ): Promise<readonly Pending<Operation, Row>[]> {
    switch (error.kind) {
      case 'unknown':
        return this.#settleUnknown(batch);
      case 'invalid':
        if (batch.length > 1) {
          for (const pending of batch) pending.alone = true;
          return batch;
        }
        return this.#giveBack(batch, error.kind, error);
      case 'unavailable':
      case 'overloaded':
        return this.#giveBack(batch, error.kind, error);
    }
  }

  /**
   * The round may have applied, and may still for LATE_APPLY_MS. Our own mark settles it; without the mark the very same
   * operation is issued again, which either applies once or finds its mark.
   */
  async #settleUnknown(batch: readonly Pending<Operation, Row>[]): Promise<readonly Pending<Operation, Row>[]> {
    for (const pending of batch) pending.maybeApplied = true;
    let rows: ReadonlyMap<string, Row>;
    try {
      rows = await this.#readSerial(batch);
    } catch {
      return batch;
    }
    const again: Pending<Operation, Row>[] = [];
    for (const pending of batch) {
      const row = rows.get(pending.id);
      if (row !== undefined && this.#rules.bearsMark(pending.operation, row)) pending.answer({ kind: 'applied', row });
      else again.push(pending);
    }
    return again;
  }

  /** Nothing was written by this round; what an earlier one may have applied still has to be settled. */
  #giveBack(
    batch: readonly Pending<Operation, Row>[],
    reason: 'unavailable' | 'overloaded' | 'invalid',
    cause: StoreError,
  ): readonly Pending<Operation, Row>[] {
    const again: Pending<Operation, Row>[] = [];
    for (const pending of batch) {
      if (pending.maybeApplied) again.push(pending);
      else pending.answer({ kind: 'not_written', reason, cause });
    }
    return again;
  }

  #dropExpired(line: Line<Operation, Row>): void {
    const expired = line.waiting.filter((pending) => this.#expired(pending));
    if (expired.length === 0) return;
    line.waiting = line.waiting.filter((pending) => !expired.includes(pending));
    const cause = new Error('the operation waited past its deadline');
    for (const pending of expired) {
      pending.answer(
        pending.maybeApplied ? { kind: 'unknown', cause } : { kind: 'not_written', reason: 'expired', cause },
      );
    }
  }

  #expired(pending: Pending<Operation, Row>): boolean {
    return msBetween(pending.submittedAt, this.#clock.monotonic()) > pending.deadlineMs;
  }

  #readSerial(batch: readonly Pending<Operation, Row>[]): Promise<ReadonlyMap<string, Row>> {
    return this.#reader.read(
      batch.map(({ id }) => id),
      { serial: true },
    );
  }

  #measure(
    batch: readonly Pending<Operation, Row>[],
    startedAt: MonotonicMs,
    outcome: 'applied' | 'lost' | 'unknown' | 'not_written',
  ): void {
    const [first] = batch;
    if (first === undefined) return;
    const edge = this.#rules.edgeOf(first.operation);
    const seconds = msBetween(startedAt, this.#clock.monotonic()) / SECOND_MS;
    this.#telemetry.observe('punctual_round_duration_seconds', seconds, { edge, outcome });
    this.#telemetry.observe('punctual_round_rows', batch.length, { edge });
  }

  /**
   * The next round of a line, in order: one operation per row (a later one on the same row waits), creates and transitions
   * never mixed (a lost create returns every column of all rows), bounded in rows and bytes.
   */
  #takeBatch(line: Line<Operation, Row>): readonly Pending<Operation, Row>[] {
    const { isCreate, bytesOf } = this.#rules;
    const taken: Pending<Operation, Row>[] = [];
    const left: Pending<Operation, Row>[] = [];
    const rows = new Set<string>();
    let bytes = 0;
    for (const pending of line.waiting) {
      const { id, operation } = pending;
      const first = taken[0];
      const size = bytesOf(operation);
      const fits =
        first === undefined ||
        (!first.alone &&
          !pending.alone &&
          isCreate(first.operation) === isCreate(operation) &&
          taken.length < ROUND_MAX_ROWS &&
          bytes + size <= ROUND_MAX_BYTES);
      if (fits && !rows.has(id)) {
        taken.push(pending);
        bytes += size;
      } else {
        left.push(pending);
      }
      // Also when left behind: an operation must not overtake an earlier one on its row.
      rows.add(id);
    }
    line.waiting = left;
    return taken;
  }
}

const JOB_RULES: TableRules<Operation, JobRow, ConditionColumns> = {
  idOf: ({ jobId }) => jobId,
  edgeOf: ({ edge }) => edge,
  isCreate: ({ edge }) => edge === 'create',
  bytesOf: operationBytes,
  judge: judgeCondition,
  bearsMark,
};

/** The rounds of the table `jobs`. */
export class Rounds extends CohortRounds<Operation, JobRow, ConditionColumns> {
  constructor(parts: RoundsParts<Operation, JobRow, ConditionColumns>) {
    super(parts, JOB_RULES);
  }
}

const SCHEDULE_RULES: TableRules<ScheduleOperation, ScheduleRow, ScheduleConditionColumns> = {
  idOf: ({ scheduleId }) => scheduleId,
  edgeOf: ({ edge }) => edge,
  isCreate: ({ edge }) => edge === 'schedule_create',
  bytesOf: scheduleOperationBytes,
  judge: judgeScheduleCondition,
  bearsMark: bearsScheduleMark,
};

/** The rounds of the table `schedules`. */
export class ScheduleRounds extends CohortRounds<ScheduleOperation, ScheduleRow, ScheduleConditionColumns> {
  constructor(parts: RoundsParts<ScheduleOperation, ScheduleRow, ScheduleConditionColumns>) {
    super(parts, SCHEDULE_RULES);
  }
}

/** Two conditional writes on one row in one batch both report applied and tear the row. */
function assertOneOperationPerRow(batch: readonly { readonly id: string }[]): void {
  const rows = new Set(batch.map(({ id }) => id));
  if (rows.size !== batch.length) throw new Error('a round must not hold two operations on one row');
}
