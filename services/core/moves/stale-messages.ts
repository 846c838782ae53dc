import { cohortOf } from '../domain/ids.ts';
import type { JobRow } from '../domain/job.ts';
import { JobStatus, type Priority, subjectKey } from '../domain/job-status.ts';
import {
  PUBLISHED_SLACK_MS,
  STALE_MESSAGE_AFTER_MS,
  STALE_NOTES_MAX,
  STALE_PAGE_MESSAGES,
  STALE_RUN_MAX_MS,
} from '../domain/limits.ts';
import { msBetween, type EpochMs, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { StateReader } from '../ports/job-store.ts';
import type { ReadMessages, ReadyIncarnation, ReadyQueue, StoredMessage } from '../ports/ready-queue.ts';
import { StoreError } from '../ports/store-error.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';

/** What whoever takes jobs out of `enqueued` tells. */
export type LeftBehind = Pick<StaleMessages, 'note'>;

interface Note {
  readonly jobId: string;
  readonly queue: string;
  readonly priority: Priority;
  readonly notedAt: MonotonicMs;
  /** None of the job's messages was stored before. */
  readonly storedFrom: EpochMs;
}

/** One walk through the messages of a subject, over as many runs as it takes. */
interface Pass {
  readonly queue: string;
  readonly priority: Priority;
  /** Those that it answers; jobs noted meanwhile are heeded as they are met, and have a pass of their own afterwards. */
  readonly notes: readonly Note[];
  from: ReadMessages['from'];
}

/**
 * Takes messages out of the ready stream whose jobs stopped waiting without a claim: they would be counted as ready until a worker
 * asks. A message is removed when it was seen before its job's state was read, and the state is not `enqueued`: should the job be
 * enqueued again in between, the message of that is another one, published after the state is written. Notes are soft state:
 * what is lost of them leaves messages to the workers, whose claims are refused.
 */
export class StaleMessages {
  readonly #queue: ReadyQueue;
  readonly #reader: StateReader;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #log: Log;
  /** By job, the oldest first. */
  readonly #notes = new Map<string, Note>();
  /** By subject, in the order of their turns. */
  readonly #passes = new Map<string, Pass>();

  constructor(parts: { queue: ReadyQueue; reader: StateReader; clock: Clock; telemetry: Telemetry; log: Log }) {
    this.#queue = parts.queue;
    this.#reader = parts.reader;
    this.#clock = parts.clock;
    this.#telemetry = parts.telemetry;
    this.#log = parts.log;
  }

  /** The job left `enqueued`, or may have. Of more than STALE_NOTES_MAX the oldest are forgotten. */
  note({ jobId, queue, priority, enqueuedAt }: Pick<JobRow, 'jobId' | 'queue' | 'priority' | 'enqueuedAt'>): void {
    const before = this.#notes.get(jobId)?.storedFrom ?? Infinity;
    const storedFrom = Math.max(0, Math.min(before, (enqueuedAt ?? 0) - PUBLISHED_SLACK_MS));
    this.#notes.delete(jobId);
    const [oldest] = this.#notes.keys();
    if (this.#notes.size >= STALE_NOTES_MAX && oldest !== undefined) this.#notes.delete(oldest);
    this.#notes.set(jobId, { jobId, queue, priority, notedAt: this.#clock.monotonic(), storedFrom });
  }

  /**
   * A duty of the loop, each second; returns how many messages it removed. It goes on with the next page until STALE_RUN_MAX_MS are
   * over, subject by subject in turns. Throws BusError; the notes are kept then, as they are without a connection.
   * @param afterMs how long ago a job must have been noted; 0 at the end of the process.
   */
  async runOnce(afterMs = STALE_MESSAGE_AFTER_MS): Promise<number> {
    if (!this.#queue.connected()) return 0;
    const startedAt = this.#clock.monotonic();
    this.#beginPasses(startedAt, afterMs);
    if (this.#passes.size === 0) return 0;
    const life = await this.#queue.incarnation();
    let removed = 0;
    do {
      const [next] = this.#passes;
      if (next === undefined) break;
      const [subject, pass] = next;
      // To the end, also when this fails.
      this.#passes.delete(subject);
      this.#passes.set(subject, pass);
      removed += await this.#walkOn(subject, pass, life);
    } while (msBetween(startedAt, this.#clock.monotonic()) < STALE_RUN_MAX_MS);
    return removed;
  }

  #beginPasses(now: MonotonicMs, afterMs: number): void {
    const ripe: Note[] = [];
    for (const note of this.#notes.values()) if (msBetween(note.notedAt, now) >= afterMs) ripe.push(note);
    for (const [subject, notes] of Map.groupBy(ripe, subjectKey)) {
      const [first] = notes;
      if (first === undefined || this.#passes.has(subject)) continue;
      const { queue, priority } = first;
      const storedAt = notes.reduce((earliest, { storedFrom }) => Math.min(earliest, storedFrom), first.storedFrom);
      this.#passes.set(subject, { queue, priority, notes, from: { storedAt } });
    }
  }

  /** Another page of the pass; returns how many messages it removed. */
  async #walkOn(subject: string, pass: Pass, life: ReadyIncarnation): Promise<number> {
    const { queue, priority, from } = pass;
    const page = await this.#queue.readMessages({ queue, priority, from, max: STALE_PAGE_MESSAGES });
    const noted = page.messages.filter(({ message }) => this.#notes.has(message.jobId));
    const stale = noted.length === 0 ? [] : await this.#staleOf(noted);
    if (stale.length > 0) {
      // Another life gives the sequences to other messages.
      if (!isOfSameLife(life, await this.#queue.incarnation())) {
        this.#passes.clear();
        return 0;
      }
      await this.#queue.removeMessages(stale.map(({ sequence }) => sequence));
      this.#telemetry.count('punctual_ready_removed_total', {}, stale.length);
    }
    if (page.next === null) this.#end(subject, pass);
    else pass.from = page.next;
    return stale.length;
  }

  /**
   * At LOCAL_QUORUM: whoever publishes a job knows that its round was applied, so a quorum has that state before there is a message.
   * Cohorts whose replicas are away keep no other's messages, and are noted anew.
   */
  async #staleOf(noted: readonly StoredMessage[]): Promise<readonly StoredMessage[]> {
    const stays = new Set<string>();
    const readCohort = async (jobIds: readonly string[]): Promise<void> => {
      try {
        const states = await this.#reader.readStates(jobIds);
        for (const jobId of jobIds) if (states.get(jobId)?.status === JobStatus.enqueued) stays.add(jobId);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        this.#log.debug('jobs that left the ready stream cannot be read now', { error: error.message });
        for (const jobId of jobIds) {
          stays.add(jobId);
          const note = this.#notes.get(jobId);
          if (note !== undefined) this.#notes.set(jobId, { ...note, notedAt: this.#clock.monotonic() });
        }
      }
    };
    const jobIds = new Set(noted.map(({ message }) => message.jobId));
    await Promise.all(Array.from(Map.groupBy(jobIds, cohortOf).values(), readCohort));
    return noted.filter(({ message }) => !stays.has(message.jobId));
  }

  #end(subject: string, pass: Pass): void {
    this.#passes.delete(subject);
    // One that was noted again since wants another pass.
    for (const note of pass.notes) if (this.#notes.get(note.jobId) === note) this.#notes.delete(note.jobId);
  }
}

function isOfSameLife(life: ReadyIncarnation, now: ReadyIncarnation): boolean {
  return now.createdAt === life.createdAt && now.lastSequence >= life.lastSequence;
}
