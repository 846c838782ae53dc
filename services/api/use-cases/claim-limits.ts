import { ok, type Problem } from '../../core/contract/problems.ts';
import type { JobTerms } from '../../core/ports/job-store.ts';
import type { QueueGate } from '../../core/queues/queue-gate.ts';
import type { ReadySurplus } from '../../core/queues/ready-surplus.ts';
import type { RunningSlots } from '../../core/queues/running-slots.ts';
import { withStore } from './store-problems.ts';
import { queueAtLimit, queueOverRate, queuePaused } from './worker-refusals.ts';

export interface ClaimLimitsParts {
  readonly gate: Pick<QueueGate, 'isPaused' | 'maxRunning'>;
  readonly slots: Pick<RunningSlots, 'holders'>;
  readonly surplus: Pick<ReadySurplus, 'among'>;
}

/** What queues say to the claims of their jobs. */
export interface ClaimVerdicts {
  /** Handed out before their queue was paused or had a limit: they go back to wait for it. */
  readonly heldBack: ReadonlyMap<JobTerms, Problem>;
  /** By queue: whether its jobs may start could not be read. */
  readonly unread: ReadonlyMap<string, Problem>;
  /** Of queues with max_running: those that have a slot, while they are enqueued as they were found. */
  readonly slotted: ReadonlySet<JobTerms>;
}

/** Which jobs, handed out and found enqueued, their queues let start now. */
export class ClaimLimits {
  readonly #parts: ClaimLimitsParts;

  constructor(parts: ClaimLimitsParts) {
    this.#parts = parts;
  }

  /** Every queue is asked once and by itself: one that cannot be read, or is over its rate, keeps no other's jobs from starting. */
  async verdicts(jobs: readonly JobTerms[]): Promise<ClaimVerdicts> {
    const heldBack = new Map<JobTerms, Problem>();
    const unread = new Map<string, Problem>();
    const slotted = new Set<JobTerms>();
    const verdictsOf = async ([queue, ofQueue]: readonly [string, readonly JobTerms[]]): Promise<void> => {
      const { gate, surplus } = this.#parts;
      if (gate.isPaused(queue)) {
        for (const job of ofQueue) heldBack.set(job, queuePaused(queue));
        return;
      }
      const maxRunning = gate.maxRunning(queue);
      if (maxRunning !== null) {
        const jobIds = ofQueue.map(({ jobId }) => jobId);
        const holders = await withStore(async () => ok(await this.#parts.slots.holders(queue, maxRunning, jobIds)));
        if (!holders.ok) {
          unread.set(queue, holders.problem);
          return;
        }
        for (const job of ofQueue) {
          if (holders.value.has(job.jobId)) slotted.add(job);
          else heldBack.set(job, queueAtLimit(queue));
        }
      }
      const startable = ofQueue.filter((job) => !heldBack.has(job));
      for (const job of await surplus.among(queue, startable)) heldBack.set(job, queueOverRate(queue));
    };
    await Promise.all(
      Array.from(
        Map.groupBy(jobs, ({ queue }) => queue),
        verdictsOf,
      ),
    );
    return { heldBack, unread, slotted };
  }
}
