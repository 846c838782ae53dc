import { QUEUE_RUNNING_MAX } from '../core/domain/limits.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Random } from '../core/ports/random.ts';
import type { SlotChange, SlotStore } from '../core/ports/slot-store.ts';

export interface SlotAdopterParts {
  readonly store: SlotStore;
  readonly clock: Clock;
  readonly random: Random;
}

/** Slots changed in one conditional write. */
const CHANGES_MAX = 100;

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
   * @param running jobs of the queue that run.
   * @returns how many slots were read.
   */
  async adopt(queue: string, running: readonly string[]): Promise<number> {
    const { store, clock, random } = this.#parts;
    const slots = await store.read(queue);
    const holders = new Set(slots.map(({ jobId }) => jobId));
    const slotless = running.filter((jobId) => !holders.has(jobId));
    if (slotless.length === 0) return slots.length;
    const known = new Map(slots.map((slot) => [slot.slot, slot]));
    const free = Array.from({ length: QUEUE_RUNNING_MAX }, (_, slot) => slot).filter(
      (slot) => (known.get(slot)?.jobId ?? null) === null,
    );
    const takenAt = clock.now();
    const changes = slotless.slice(0, free.length).map((jobId, index): SlotChange => {
      const slot = free[index] ?? 0;
      const after = { queue, slot, jobId, leaving: false, takenAt, token: random.token() };
      return { before: known.get(slot)?.token ?? null, after };
    });
    for (let start = 0; start < changes.length; start += CHANGES_MAX) {
      if (!(await store.change(changes.slice(start, start + CHANGES_MAX)))) break;
    }
    return slots.length;
  }
}
