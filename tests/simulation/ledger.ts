// What the world was told: the promises that the answers of the api make, each held against what happens later.

import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus, Outcome } from '../../services/core/domain/job-status.ts';
import type { MemoryStores } from '../support/memory-store.ts';
import type { TimerInvariant } from './timer-invariant.ts';
import type { Report } from './violation.ts';

export class Ledger {
  /** Jobs that were answered with 201 or 200. */
  readonly accepted = new Set<string>();
  /** Attempts answered as claimed. */
  claims = 0;
  completions = 0;
  readonly #stores: MemoryStores;
  readonly #timers: TimerInvariant;
  readonly #report: Report;
  readonly #jobOfKey = new Map<string, string>();
  readonly #claimOf = new Map<string, string>();
  readonly #cancelled = new Set<string>();
  /** The attempt that was running when a request to cancel was answered. */
  readonly #cancelRequested = new Map<string, number>();
  readonly #completed = new Map<string, number>();
  /** Replays that were asked for and not answered: nobody was promised that the job runs again. */
  readonly #replaying = new Map<string, number>();

  constructor(parts: { stores: MemoryStores; timers: TimerInvariant; report: Report }) {
    this.#stores = parts.stores;
    this.#timers = parts.timers;
    this.#report = parts.report;
  }

  /** @param key the idempotency key, with the item's place in a batch; null for none. */
  created(job: JobRow, key: string | null): void {
    const { jobId } = job;
    if (!this.#stores.rows.has(jobId)) this.#broken('an accepted job is missing', jobId, 'answered and not stored');
    this.accepted.add(jobId);
    this.#timers.watch(jobId);
    if (key === null) return;
    const known = this.#jobOfKey.get(key) ?? jobId;
    this.#jobOfKey.set(key, known);
    if (known !== jobId) this.#broken('two jobs of one key', jobId, `key ${key} stood for ${known} before`);
  }

  notFound(jobId: string): void {
    if (this.accepted.has(jobId)) this.#broken('an accepted job is missing', jobId, 'answered 404');
  }

  claimed(jobId: string, attempt: number, claimId: string): void {
    this.claims += 1;
    const holder = this.#claimOf.get(`${jobId} ${attempt}`);
    this.#claimOf.set(`${jobId} ${attempt}`, claimId);
    if (holder !== undefined && holder !== claimId) {
      this.#broken('two claims of one attempt', jobId, `attempt ${attempt} was given to ${holder} and to ${claimId}`);
    }
    if (this.#cancelled.has(jobId)) this.#broken('a cancelled job starts', jobId, `attempt ${attempt}`);
    const askedAt = this.#cancelRequested.get(jobId);
    if (askedAt !== undefined && attempt > askedAt) {
      this.#broken('a cancelled job starts', jobId, `attempt ${attempt}, asked to stop at ${askedAt}`);
    }
    const row = this.#stores.rows.get(jobId);
    if (row?.starts.get(attempt)?.claimId !== claimId) {
      this.#broken('an answered claim is not stored', jobId, `attempt ${attempt} of ${claimId}`);
    }
  }

  /** A report that was accepted. */
  ended(jobId: string, attempt: number, outcome: Outcome, replayed: boolean): void {
    const row = this.#stores.rows.get(jobId);
    if (row?.ends.get(attempt)?.outcome !== outcome) {
      this.#broken('an accepted report is not stored', jobId, `attempt ${attempt} as ${outcome}`);
    }
    if (outcome !== Outcome.succeeded || replayed) return;
    this.completions += 1;
    // One report that came twice may be answered twice.
    const completed = this.#completed.get(jobId) ?? attempt;
    this.#completed.set(jobId, attempt);
    if (completed !== attempt) this.#broken('two accepted completions', jobId, `attempts ${completed} and ${attempt}`);
  }

  cancelled(jobId: string): void {
    this.#cancelled.add(jobId);
  }

  cancelRequested(jobId: string, attempt: number): void {
    if (!this.#cancelRequested.has(jobId)) this.#cancelRequested.set(jobId, attempt);
  }

  replayAsked(jobId: string): void {
    this.#replaying.set(jobId, (this.#replaying.get(jobId) ?? 0) + 1);
    this.#timers.unwatch(jobId);
  }

  replayed(jobId: string): void {
    this.#replaying.delete(jobId);
    this.#timers.watch(jobId);
  }

  /** Refused for good: what became of the job was no work of this replay. */
  replayRefused(jobId: string): void {
    const others = (this.#replaying.get(jobId) ?? 1) - 1;
    if (others > 0) {
      this.#replaying.set(jobId, others);
      return;
    }
    this.#replaying.delete(jobId);
    this.#timers.watch(jobId);
  }

  /** What is still promised and not yet done. */
  open(): readonly JobRow[] {
    return [...this.accepted].flatMap((jobId) => {
      const row = this.#stores.rows.get(jobId);
      if (row === undefined) this.#broken('an accepted job is missing', jobId, 'no row any more');
      return row === undefined || isTerminal(row.status) || this.#replaying.has(jobId) ? [] : [row];
    });
  }

  /** Accepted jobs that are over and whose end the audit tables do not tell. */
  unrecorded(): readonly JobRow[] {
    const { rows, finished, letters } = this.#stores;
    return [...this.accepted].flatMap((jobId) => {
      const row = rows.get(jobId);
      if (row === undefined || !isTerminal(row.status)) return [];
      const entry = finished.get(`${row.queue} ${row.finishedAt ?? 0} ${jobId}`);
      const letter = letters.get(`${row.queue} ${row.finishedAt ?? 0} ${jobId}`);
      const isRecorded = entry?.status === row.status && (row.status !== JobStatus.dead || letter !== undefined);
      return isRecorded ? [] : [row];
    });
  }

  #broken(rule: string, jobId: string, detail: string): void {
    this.#report({ rule, detail: `${jobId}: ${detail}`, subject: jobId });
  }
}
