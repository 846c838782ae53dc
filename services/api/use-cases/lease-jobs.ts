import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { PRIORITIES } from '../../core/domain/job-status.ts';
import { ANSWER_MAX_BYTES, SECOND_MS } from '../../core/domain/limits.ts';
import { msBetween, type MonotonicMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobTerms, TermsReader } from '../../core/ports/job-store.ts';
import { BusError, type PulledMessage, type ReadyQueue } from '../../core/ports/ready-queue.ts';
import type { QueueGate } from '../../core/queues/queue-gate.ts';
import type { JobClaimer } from './claim-jobs.ts';
import { readEachCohort } from './read-each-cohort.ts';
import { isUndecided, withStore } from './store-problems.ts';
import type { ClaimedJob, LeaseRequest } from './types.ts';
import { isHeldBack } from './worker-refusals.ts';

export interface LeaseJobsParts {
  readonly queue: ReadyQueue;
  readonly reader: TermsReader;
  readonly claimer: JobClaimer;
  readonly gate: Pick<QueueGate, 'isPaused'>;
  readonly clock: Clock;
}

const READY_RETRY_AFTER_S = 2;
/** When the store could not tell about a claim, its message comes again after this. */
const GIVE_BACK_MS = SECOND_MS;
/** Of a paused queue nothing is pulled; whether it was resumed is asked so often. */
const PAUSED_LOOK_MS = SECOND_MS;

/**
 * POST /queues/{queue}/lease: a worker's pull, claim and acknowledgement in one call, for workers without a NATS client. Each
 * message is acknowledged after its claim, whatever came of it, and given back when the store could not tell.
 */
export class JobLeaser {
  readonly #parts: LeaseJobsParts;

  constructor(parts: LeaseJobsParts) {
    this.#parts = parts;
  }

  async lease(request: LeaseRequest): Promise<Result<readonly ClaimedJob[]>> {
    const startedAt = this.#parts.clock.monotonic();
    try {
      return await withStore(async () => {
        for (;;) {
          const waitMs = Math.max(0, request.waitMs - this.#sinceMs(startedAt));
          if (this.#parts.gate.isPaused(request.queue)) {
            if (waitMs === 0 || request.signal.aborted) return ok([]);
            await this.#parts.clock.sleep(Math.min(waitMs, PAUSED_LOOK_MS), request.signal);
            continue;
          }
          const messages = (await this.#parts.queue.pull({ ...request, waitMs })).toSorted(byPriority);
          if (messages.length === 0) return ok([]);
          const { claimed, heldBack } = await this.#claim(request, messages);
          if (claimed.length > 0 || request.signal.aborted) return ok(claimed);
          // A queue that has too many published takes them back, call by call: none of them goes on with it for longer than it waits.
          if (heldBack > 0 && this.#sinceMs(startedAt) >= request.waitMs) return ok([]);
          // All of them were stale, or held back: the caller still waits for a job.
        }
      });
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
      return refused({
        code: 'ready_stream_unavailable',
        detail: 'NATS is away, so no jobs can be handed out now.',
        retryAfterS: READY_RETRY_AFTER_S,
      });
    }
  }

  /** @returns what was claimed, and how many jobs their queue took back. */
  async #claim(
    request: LeaseRequest,
    messages: readonly PulledMessage[],
  ): Promise<{ readonly claimed: readonly ClaimedJob[]; readonly heldBack: number }> {
    const read = request.signal.aborted
      ? null
      : await readEachCohort(messages.map(jobIdOf), (ids) => this.#parts.reader.readTerms(ids));
    const fitting = read === null ? [] : fittingOf(messages, read.rows);
    // For another call, or another worker.
    for (const message of messages) if (!fitting.includes(message)) message.nakAfter(0);
    if (read === null || fitting.length === 0) return { claimed: [], heldBack: 0 };
    const items = fitting.map(({ message: { jobId, attempt } }) => ({
      jobId,
      attempt,
      claimId: request.claimId,
    }));
    const results = await this.#parts.claimer.claim(items, request.worker, read);
    for (const [index, result] of results.entries()) {
      const undecided = !result.ok && isUndecided(result.problem.code);
      if (undecided) fitting[index]?.nakAfter(GIVE_BACK_MS);
      else fitting[index]?.ack();
    }
    return {
      claimed: results.flatMap((result) => (result.ok ? [result.value] : [])),
      heldBack: results.filter((result) => !result.ok && isHeldBack(result.problem)).length,
    };
  }

  #sinceMs(startedAt: MonotonicMs): number {
    return msBetween(startedAt, this.#parts.clock.monotonic());
  }
}

/** Low may be asked first when its share is due; within one answer high still stands before low. */
function byPriority(one: PulledMessage, other: PulledMessage): number {
  return PRIORITIES.indexOf(one.message.priority) - PRIORITIES.indexOf(other.message.priority);
}

function jobIdOf({ message }: PulledMessage): string {
  return message.jobId;
}

/** As many of the first messages as fit into one answer by their payloads' sizes; always the first. */
function fittingOf(messages: readonly PulledMessage[], terms: ReadonlyMap<string, JobTerms>): readonly PulledMessage[] {
  let bytes = 0;
  return messages.filter((message, index) => {
    bytes += terms.get(jobIdOf(message))?.payloadBytes ?? 0;
    return index === 0 || bytes <= ANSWER_MAX_BYTES;
  });
}
