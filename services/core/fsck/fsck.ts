import type { BulkOperation } from '../domain/bulk.ts';
import type { CheckedJob, Finding } from '../domain/fsck.ts';
import { isJobId, isOperationId, isScheduleId } from '../domain/ids.ts';
import {
  FSCK_BATCH_ROWS,
  FSCK_CONFIRM_ROWS,
  FSCK_FINDINGS_MAX,
  FSCK_LOOKS_MAX,
  FSCK_RING_PARTS,
  FSCK_SAMPLES,
  SLEEP_MAX_MS,
} from '../domain/limits.ts';
import type { RetentionTerms } from '../domain/queue-settings.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import { elapsedMs, type EpochMs, type Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { HeldStore } from '../ports/held-store.ts';
import type { JobReader } from '../ports/job-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { RingPart, RingStore } from '../ports/ring-store.ts';
import type { ScheduleReader } from '../ports/schedule-store.ts';
import type { CursorStore, TimerStore } from '../ports/timer-store.ts';
import { Examiner } from './examiner.ts';
import { Pacer } from './pacer.ts';
import { TimerSearch } from './timer-search.ts';

export interface FsckParts {
  readonly ring: RingStore;
  readonly jobs: JobReader;
  readonly schedules: ScheduleReader;
  readonly operations: Pick<OperationStore, 'find'>;
  readonly timers: TimerStore;
  readonly held: HeldStore;
  readonly cursors: CursorStore;
  readonly clock: Clock;
  readonly shards: number;
  readonly clusterStartedAt: EpochMs;
  /** By the queues' settings as they are when fsck begins. */
  readonly retentionOf: (queue: string) => RetentionTerms;
  /** Told of each part of a table that is read. */
  readonly onProgress?: (progress: FsckProgress) => void;
}

export interface FsckOptions {
  readonly pageRows: number;
  readonly rowsPerS: number;
  readonly graceMs: number;
}

export type FsckTable = 'jobs' | 'schedules' | 'operations' | 'due' | 'deadlines';

export interface FsckProgress {
  readonly table: FsckTable;
  /** Of FSCK_RING_PARTS. */
  readonly part: number;
  /** Of the table, so far. */
  readonly rows: number;
  /** Subjects that look damaged and are still to be looked at again. */
  readonly suspects: number;
}

export interface FsckReport {
  /** Rows read, by table. */
  readonly rows: Readonly<Record<FsckTable, number>>;
  readonly findings: readonly Finding[];
  /** Whether there were more than are listed. */
  readonly truncated: boolean;
  /** Subjects that looked damaged and changed whenever they were looked at: somebody is at work on them. */
  readonly busy: readonly string[];
  /** Timer rows of jobs, schedules and operations that do not exist: left of a create that ended half-way, and harmless. */
  readonly orphans: { readonly count: number; readonly samples: readonly string[] };
}

type Kind = 'jobs' | 'schedules' | 'operations';

/**
 * Reads everything, slowly, and reports what is damaged. It runs beside a system at work: what looks damaged is read again, serially
 * and after a grace, and is reported only if it is damaged still and did not change while it was looked at.
 */
export class Fsck {
  readonly #parts: FsckParts;
  readonly #options: FsckOptions;
  readonly #pacer: Pacer;
  readonly #examiner: Examiner;
  readonly #rows: Record<FsckTable, number> = { jobs: 0, schedules: 0, operations: 0, due: 0, deadlines: 0 };
  readonly #suspects: Record<Kind, Map<string, Moment>> = {
    jobs: new Map(),
    schedules: new Map(),
    operations: new Map(),
  };
  readonly #findings: Finding[] = [];
  readonly #busy: string[] = [];

  constructor(parts: FsckParts, options: FsckOptions) {
    const { ring, timers, held, cursors, clock, shards, clusterStartedAt, retentionOf } = parts;
    this.#parts = parts;
    this.#options = options;
    this.#pacer = new Pacer({ clock, rowsPerS: options.rowsPerS });
    const search = new TimerSearch({ ring, timers, held, cursors, clock, pacer: this.#pacer, clusterStartedAt });
    this.#examiner = new Examiner({ ring, search, clock, shards, retentionOf });
  }

  /** Throws StoreError. */
  async run(): Promise<FsckReport> {
    const { ring } = this.#parts;
    await this.#scan(
      'jobs',
      (part) => ring.jobs(part),
      (rows) => this.#examiner.jobs(rows),
    );
    await this.#scan(
      'schedules',
      (part) => ring.schedules(part),
      (rows) => this.#examiner.schedules(rows),
    );
    await this.#scan(
      'operations',
      (part) => ring.operations(part),
      (rows) => this.#examiner.operations(rows),
    );
    const lost = new Set<string>();
    await this.#scanTimers('due', (part) => ring.due(part), lost);
    await this.#scanTimers('deadlines', (part) => ring.deadlines(part), lost);
    await this.#confirmAll();
    const orphans = await this.#absentOf([...lost]);
    return {
      rows: this.#rows,
      findings: this.#findings,
      truncated: this.#findings.length >= FSCK_FINDINGS_MAX,
      busy: this.#busy,
      orphans: { count: orphans.length, samples: orphans.slice(0, FSCK_SAMPLES) },
    };
  }

  async #scan<Row>(
    table: Kind,
    read: (part: RingPart) => AsyncIterable<readonly Row[]>,
    examine: (rows: readonly Row[]) => Promise<readonly Finding[]>,
  ): Promise<void> {
    let batch: Row[] = [];
    const flush = async (): Promise<void> => {
      const now = this.#parts.clock.moment();
      for (const { subject } of await examine(batch)) this.#suspects[table].set(subject, now);
      batch = [];
      if (this.#suspects[table].size >= FSCK_BATCH_ROWS) await this.#confirmAll();
    };
    await this.#eachPage(table, read, async (rows) => {
      batch.push(...rows);
      if (batch.length >= FSCK_BATCH_ROWS) await flush();
    });
    await flush();
  }

  /** What timer rows name that is not there. */
  async #scanTimers<Row extends { readonly jobId: string }>(
    table: 'due' | 'deadlines',
    read: (part: RingPart) => AsyncIterable<readonly Row[]>,
    lost: Set<string>,
  ): Promise<void> {
    const { ring } = this.#parts;
    await this.#eachPage(table, read, async (rows) => {
      const ids = [...new Set(rows.map(({ jobId }) => jobId))];
      const jobIds = ids.filter(isJobId);
      const existing = await ring.existingJobs(jobIds);
      for (const jobId of jobIds) if (!existing.has(jobId) && lost.size < FSCK_FINDINGS_MAX) lost.add(jobId);
      for (const id of await this.#absentOf(ids.filter((each) => !isJobId(each)))) lost.add(id);
    });
  }

  async #eachPage<Row>(
    table: FsckTable,
    read: (part: RingPart) => AsyncIterable<readonly Row[]>,
    use: (rows: readonly Row[]) => Promise<void>,
  ): Promise<void> {
    const { onProgress } = this.#parts;
    for (let part = 0; part < FSCK_RING_PARTS; part += 1) {
      let rowsOfPart = 0;
      for await (const rows of read({ part, of: FSCK_RING_PARTS, pageRows: this.#options.pageRows })) {
        rowsOfPart += rows.length;
        await use(rows);
        await this.#pacer.spend(rows.length);
      }
      this.#rows[table] += rowsOfPart;
      const suspects = Object.values(this.#suspects).reduce((sum, each) => sum + each.size, 0);
      onProgress?.({ table, part: part + 1, rows: this.#rows[table], suspects });
    }
  }

  async #confirmAll(): Promise<void> {
    const { jobs, schedules } = this.#parts;
    const examiner = this.#examiner;
    await this.#confirm('jobs', {
      read: (ids) => jobs.read(ids, { serial: true }),
      examine: (rows) => examiner.jobs(rows),
      version: jobVersion,
    });
    await this.#confirm('schedules', {
      read: (ids) => schedules.read(ids, { serial: true }),
      examine: (rows) => examiner.schedules(rows),
      version: ({ revision, nextRunAt }: ScheduleRow) => `${revision} ${nextRunAt ?? ''}`,
    });
    await this.#confirm('operations', {
      read: (ids) => this.#readOperations(ids),
      examine: (rows) => examiner.operations(rows),
      version: ({ revision }: BulkOperation) => String(revision),
    });
  }

  /** Reads each, examines what it is now, and reads it once more: only what stood still meanwhile was seen as it is. */
  async #confirm<Row>(kind: Kind, confirmation: Confirmation<Row>): Promise<void> {
    const suspects = this.#suspects[kind];
    const ids = [...suspects.keys()];
    await this.#waitOut([...suspects.values()]);
    suspects.clear();
    for (let start = 0; start < ids.length; start += FSCK_CONFIRM_ROWS) {
      await this.#confirmChunk(ids.slice(start, start + FSCK_CONFIRM_ROWS), confirmation);
    }
  }

  async #confirmChunk<Row>(chunk: readonly string[], { read, examine, version }: Confirmation<Row>): Promise<void> {
    let ids = chunk;
    for (let looks = 0; looks < FSCK_LOOKS_MAX && ids.length > 0; looks += 1) {
      const before = await read(ids);
      const findings = await examine([...before.values()]);
      const subjects = [...new Set(findings.map(({ subject }) => subject))];
      const after = subjects.length === 0 ? new Map<string, Row>() : await read(subjects);
      const stoodStill = (id: string): boolean => {
        const [one, other] = [before.get(id), after.get(id)];
        return one !== undefined && other !== undefined && version(one) === version(other);
      };
      const room = FSCK_FINDINGS_MAX - this.#findings.length;
      this.#findings.push(...findings.filter(({ subject }) => stoodStill(subject)).slice(0, room));
      ids = subjects.filter((id) => !stoodStill(id) && after.has(id));
    }
    this.#busy.push(...ids);
  }

  async #waitOut(seenAt: readonly Moment[]): Promise<void> {
    const { clock } = this.#parts;
    const last = seenAt.at(-1);
    if (last === undefined) return;
    for (;;) {
      const leftMs = this.#options.graceMs - elapsedMs(last, clock.moment());
      if (leftMs <= 0) return;
      await clock.sleep(Math.min(leftMs, SLEEP_MAX_MS));
    }
  }

  /** Of ids of any kind, those without a row, by serial reads. */
  async #absentOf(ids: readonly string[]): Promise<readonly string[]> {
    if (ids.length === 0) return [];
    const { jobs, schedules } = this.#parts;
    const found = [
      await jobs.read(ids.filter(isJobId), { serial: true }),
      await schedules.read(ids.filter(isScheduleId), { serial: true }),
      await this.#readOperations(ids.filter(isOperationId)),
    ];
    return ids.filter((id) => !found.some((rows) => rows.has(id)));
  }

  async #readOperations(ids: readonly string[]): Promise<ReadonlyMap<string, BulkOperation>> {
    const found = new Map<string, BulkOperation>();
    for (const id of ids) {
      const operation = await this.#parts.operations.find(id);
      if (operation !== null) found.set(id, operation);
    }
    return found;
  }
}

interface Confirmation<Row> {
  readonly read: (ids: readonly string[]) => Promise<ReadonlyMap<string, Row>>;
  readonly examine: (rows: readonly Row[]) => Promise<readonly Finding[]>;
  /** The same as long as nobody has changed the row in a way that matters here. */
  readonly version: (row: Row) => string;
}

/** A lease that was extended needs no other timer; all else does. */
function jobVersion({ status, attempt, runAt, enqueuedAt, finishedAt }: CheckedJob): string {
  return [status, attempt, runAt, enqueuedAt, finishedAt].join(' ');
}
