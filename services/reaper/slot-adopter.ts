import { chunks } from '../core/domain/chunks.ts';
import { JobStatus } from '../core/domain/job-status.ts';
import { QUEUE_RUNNING_MAX } from '../core/domain/limits.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { StateReader } from '../core/ports/job-store.ts';
import type { Random } from '../core/ports/random.ts';
import type { SlotChange, SlotStore } from '../core/ports/slot-store.ts';

export interface SlotAdopterParts {
  readonly store: SlotStore;
  readonly reader: StateReader;
  readonly clock: Clock;
  readonly random: Random;
}

/** Slots changed in one conditional write. */
const CHANGES_MAX = 100;
const STATES_AT_ONCE = 500;

/**
 * Gives slots to jobs that run without one: those that were started while their queue had no max_running. So they count, and nothing
 * starts until fewer run. Whoever is wrong about a job, because it ended meanwhile, takes a place for a while and never
 * makes one: slots are freed by what their jobs are, whoever took them (decisions/0014).
 */
export class SlotAdopter {
  readonly #parts: SlotAdopterParts;

  constructor(parts: SlotAdopterParts) {
    this.#parts = parts;
  }

  /**
   * The lowest numbers that are free, those beyond max_running after all others. Where somebody else was faster, the rest is left to
   * the next time. Throws StoreError.
   * @param seen jobs of the queue that ran when they were counted. Seconds may lie between: in a busy queue some have ended and others
   * have their slots, so those without one are looked at again.
   * @returns how many rows were read.
   */
  async adopt(queue: string, seen: readonly string[]): Promise<number> {
    const { store, clock, random } = this.#parts;
    const slots = await store.read(queue);
    const holders = new Set(slots.map(({ jobId }) => jobId));
    const slotless = seen.filter((jobId) => !holders.has(jobId));
    const running = await this.#stillRunning(queue, slotless);
    const known = new Map(slots.map((slot) => [slot.slot, slot]));
    const free = Array.from({ length: QUEUE_RUNNING_MAX }, (_, slot) => slot).filter(
      (slot) => (known.get(slot)?.jobId ?? null) === null,
    );
    const takenAt = clock.now();
    const changes = running.slice(0, free.length).map((jobId, index): SlotChange => {
      const slot = free[index] ?? 0;
      const after = { queue, slot, jobId, leaving: false, takenAt, token: random.token() };
      return { before: known.get(slot)?.token ?? null, after };
    });
    for (const some of chunks(changes, CHANGES_MAX)) if (!(await store.change(some))) break;
    return slots.length + slotless.length;
  }

  async #stillRunning(queue: string, jobIds: readonly string[]): Promise<readonly string[]> {
    const running: string[] = [];
    for (const some of chunks(jobIds, STATES_AT_ONCE)) {
      const states = await this.#parts.reader.readStates(some);
      for (const state of states.values()) {
        if (state.status === JobStatus.running && state.queue === queue) running.push(state.jobId);
      }
    }
    return running;
  }
}
