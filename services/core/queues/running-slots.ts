import { JobStatus } from '../domain/job-status.ts';
import { SECOND_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobReader, JobState, StateReader } from '../ports/job-store.ts';
import type { Random } from '../ports/random.ts';
import type { RunningSlot, SlotChange, SlotStore } from '../ports/slot-store.ts';
import { StoreError } from '../ports/store-error.ts';
import type { Log } from '../ports/telemetry.ts';

export interface RunningSlotsParts {
  readonly store: SlotStore;
  readonly reader: JobReader & StateReader;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** What this process knows of a queue's slots: as it read or changed them last. */
interface Known {
  slots: Map<number, RunningSlot>;
  /** Null: never read. */
  sweptAt: MonotonicMs | null;
  /** Calls of `take` under way. */
  taking: number;
  /** Ends with the last act on the queue's slots that was begun: one at a time. */
  line: Promise<void>;
}

const TRIES_MAX = 3;
/** How soon a full queue is looked at again for jobs that ended: longer with many slots, each of which is a read. */
const SWEEP_EVERY_MS = SECOND_MS / 5;
const SWEEP_MS_PER_SLOT = 2;
/** A slot taken less long ago may be of a job that is just being enqueued. */
const TAKEN_LATELY_MS = 5 * SECOND_MS;

/**
 * Keeps a queue with max_running to it exactly (decisions/0014): a job is enqueued only with a slot of its own, and started only while
 * it has one. A slot is freed by what its job is, never by a count or a time: first it is marked as leaving, so that no
 * claim relies on it, then the job is read, and only if it neither waits for a worker nor runs is it free.
 */
export class RunningSlots {
  readonly #parts: RunningSlotsParts;
  readonly #queues = new Map<string, Known>();

  constructor(parts: RunningSlotsParts) {
    this.#parts = parts;
  }

  /** How many slots are free as far as is known; where none is, looks for jobs that ended, for the next time. */
  free(queue: string, max: number): number {
    const known = this.#knownOf(queue);
    const free =
      numbers(openTo(max, known.slots)).filter((slot) => isFree(known.slots.get(slot))).length - known.taking;
    if (known.sweptAt !== null && free > 0) return free;
    const pauseMs = Math.max(SWEEP_EVERY_MS, known.slots.size * SWEEP_MS_PER_SLOT);
    const now = this.#parts.clock.monotonic();
    if (known.sweptAt === null || msBetween(known.sweptAt, now) >= pauseMs) {
      known.sweptAt = now;
      void this.#inLine(known, () => this.#sweep(queue, known)).catch((error: unknown) => {
        this.#parts.log.warn('the slots of a queue could not be looked at; trying again', {
          queue,
          error: String(error),
        });
      });
    }
    return 0;
  }

  /** False: none is free. Throws StoreError. */
  async take(queue: string, max: number, jobId: string): Promise<boolean> {
    const known = this.#knownOf(queue);
    known.taking += 1;
    try {
      return await this.#inLine(known, () => this.#take(queue, max, jobId, known));
    } finally {
      known.taking -= 1;
    }
  }

  /** The job was not enqueued after all: its slot is looked at at once. Never rejects: else the next sweep does. */
  async giveBack(queue: string, jobId: string): Promise<void> {
    const known = this.#knownOf(queue);
    try {
      await this.#inLine(known, () => {
        const own = [...known.slots.values()].filter((slot) => slot.jobId === jobId);
        return this.#leave(own, known);
      });
    } catch (error) {
      this.#parts.log.warn('a slot could not be given back; the next sweep does', { queue, error: String(error) });
    }
  }

  /**
   * Which of the jobs may start now. To be read after they were found enqueued. Where a slot is taken that max_running has not, it asks
   * which jobs run: one may start while the slots up to its own, and those beyond whose jobs run, are no more than max_running together.
   * Throws StoreError.
   */
  async holders(queue: string, max: number, jobIds: readonly string[]): Promise<ReadonlySet<string>> {
    const slots = await this.#parts.store.read(queue);
    const asked = new Set(jobIds);
    const own = slots.filter(
      ({ slot, jobId, leaving }) => slot < max && !leaving && jobId !== null && asked.has(jobId),
    );
    const open = openTo(max, new Map(slots.map((slot) => [slot.slot, slot])));
    const unsure = own.filter(({ slot }) => slot >= open).map(({ slot }) => slot);
    const runBeyond = unsure.length === 0 ? [] : await this.#running(slots, Math.min(...unsure) + 1);
    const mayStart = own.filter(
      ({ slot }) => slot < open || slot + 1 + runBeyond.filter((number) => number > slot).length <= max,
    );
    return new Set(mayStart.flatMap(({ jobId }) => jobId ?? []));
  }

  /** The numbers of the slots from `first` on whose jobs run: all, where that cannot be read. */
  async #running(slots: readonly RunningSlot[], first: number): Promise<readonly number[]> {
    const beyond = slots.filter((slot) => slot.slot >= first && !isFree(slot));
    const jobIds = beyond.flatMap(({ jobId }) => jobId ?? []);
    try {
      const jobs = await this.#parts.reader.readStates(jobIds);
      return beyond.filter(({ jobId }) => jobs.get(jobId ?? '')?.status === JobStatus.running).map(({ slot }) => slot);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return beyond.map(({ slot }) => slot);
    }
  }

  async #take(queue: string, max: number, jobId: string, known: Known): Promise<boolean> {
    const { random, clock } = this.#parts;
    // It comes again: perhaps a claim, which knows the slots as they are, did not let it start.
    if (holdsSlot(jobId, known)) await this.#read(queue, known);
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      // From an earlier time that it was enqueued.
      const own = [...known.slots.values()].find((slot) => slot.jobId === jobId);
      const open = openTo(max, known.slots);
      const slot = own?.slot ?? numbers(open).find((number) => isFree(known.slots.get(number)));
      if (slot === undefined || slot >= open) {
        // Its own does it no good: a look at the slots frees it, also where others are free.
        if (own !== undefined) known.sweptAt = null;
        return false;
      }
      const before = known.slots.get(slot)?.token ?? null;
      const after = { queue, slot, jobId, leaving: false, takenAt: clock.now(), token: random.token() };
      if (await this.#change([{ before, after }], known)) return true;
      await this.#read(queue, known);
    }
    return false;
  }

  /** Frees the slots of jobs that ended. */
  async #sweep(queue: string, known: Known): Promise<void> {
    await this.#read(queue, known);
    const taken = [...known.slots.values()].filter(({ jobId }) => jobId !== null);
    if (taken.length === 0) return;
    const states = await this.#parts.reader.readStates(taken.flatMap(({ jobId }) => jobId ?? []));
    const now = this.#parts.clock.now();
    await this.#leave(
      taken.filter((slot) => {
        const state = states.get(slot.jobId ?? '');
        if (needsSlot(state, queue)) return slot.leaving;
        return state?.status !== JobStatus.scheduled || now - slot.takenAt >= TAKEN_LATELY_MS;
      }),
      known,
    );
  }

  /** The two steps: marks them, reads their jobs as conditional writes see them, frees those that are not needed. */
  async #leave(slots: readonly RunningSlot[], known: Known): Promise<void> {
    const { reader, random } = this.#parts;
    if (slots.length === 0) return;
    const marked = slots.map((slot) => ({ ...slot, leaving: true, token: random.token() }));
    const marks = marked.map((after, index): SlotChange => ({ before: slots[index]?.token ?? null, after }));
    if (!(await this.#change(marks, known))) return;
    const jobs = await reader.read(
      marked.flatMap(({ jobId }) => jobId ?? []),
      { serial: true },
    );
    const settled = marked.map((slot): SlotChange => {
      const isNeeded = needsSlot(jobs.get(slot.jobId ?? ''), slot.queue);
      const jobId = isNeeded ? slot.jobId : null;
      return { before: slot.token, after: { ...slot, jobId, leaving: false, token: random.token() } };
    });
    await this.#change(settled, known);
  }

  /** What is not known to have been changed is read again before it is relied on. */
  async #change(changes: readonly SlotChange[], known: Known): Promise<boolean> {
    const [first] = changes;
    if (first === undefined) return true;
    try {
      if (!(await this.#parts.store.change(changes))) return false;
      for (const { after } of changes) known.slots.set(after.slot, after);
      return true;
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== 'unknown') throw error;
      await this.#read(first.after.queue, known);
      return changes.every(({ after }) => known.slots.get(after.slot)?.token === after.token);
    }
  }

  async #read(queue: string, known: Known): Promise<void> {
    const slots = await this.#parts.store.read(queue);
    known.slots = new Map(slots.map((slot) => [slot.slot, slot]));
  }

  #knownOf(queue: string): Known {
    const known = this.#queues.get(queue) ?? { slots: new Map(), sweptAt: null, taking: 0, line: Promise.resolve() };
    this.#queues.set(queue, known);
    return known;
  }

  async #inLine<Result>(known: Known, act: () => Promise<Result>): Promise<Result> {
    const acted = known.line.then(act);
    known.line = acted.then(
      () => undefined,
      () => undefined,
    );
    return acted;
  }
}

/** A job that waits for a worker or runs, in this queue. */
function needsSlot(job: Pick<JobState, 'status' | 'queue'> | undefined, queue: string): boolean {
  return (
    job !== undefined && job.queue === queue && (job.status === JobStatus.enqueued || job.status === JobStatus.running)
  );
}

/**
 * The slots below this number may be taken, and relied on: as many as max_running leaves beside all that are taken from there on,
 * by jobs from before it was lowered or set, as if all of them ran. An older view of the slots may open more where running jobs were
 * given some: what a dispatcher hands out by one goes back at its claim, which reads them.
 */
function openTo(max: number, slots: ReadonlyMap<number, RunningSlot>): number {
  let open = max;
  let taken = [...slots.values()].filter((slot) => slot.slot >= max && !isFree(slot)).length;
  while (taken > 0 && open > 0 && open + taken > max) {
    open -= 1;
    if (!isFree(slots.get(open))) taken += 1;
  }
  return open;
}

function holdsSlot(jobId: string, { slots }: Known): boolean {
  return [...slots.values()].some((slot) => slot.jobId === jobId);
}

function isFree(slot: RunningSlot | undefined): boolean {
  return slot === undefined || slot.jobId === null;
}

function numbers(max: number): readonly number[] {
  return Array.from({ length: max }, (_, number) => number);
}
