import type { ItemResult, PunctualClient } from './client.ts';
import type { RunningAttempt } from './running-attempt.ts';
import type { Heartbeat } from './types.ts';
import type { WorkerLog } from './worker-log.ts';

export interface HeartbeatsOptions {
  readonly client: PunctualClient;
  readonly running: ReadonlySet<RunningAttempt>;
  readonly log: WorkerLog;
  readonly itemsMax: number;
}

/** Also how much earlier than due an attempt may go with a call that is made for others. */
const TICK_MS = 500;
/** After a call that failed: within a lease of 5 s there is time for a few. */
const AGAIN_MS = 1_000;

/** Keeps the leases of all running attempts: those that are due together go in one call. */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.#beat(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #beat(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    const horizon = performance.now() + TICK_MS;
    const due = [...this.#options.running].filter((each) => !each.isLost && each.heartbeatDueAt <= horizon);
    for (let from = 0; from < due.length; from += this.#options.itemsMax) {
      await this.#send(due.slice(from, from + this.#options.itemsMax));
    }
    this.#busy = false;
  }

  /** Never rejects. */
  async #send(attempts: readonly RunningAttempt[]): Promise<void> {
    const { client, log } = this.#options;
    const sentAt = performance.now();
    for (const attempt of attempts) attempt.heartbeatDueAt = sentAt + AGAIN_MS;
    try {
      const items = attempts.map(({ job, progress }) => ({
        job_id: job.job_id,
        attempt: job.attempt,
        ...(progress === undefined ? {} : { progress }),
      }));
      const results = await client.heartbeatJobs(items);
      for (const [index, attempt] of attempts.entries()) {
        const result = results[index];
        if (result !== undefined) this.#apply(attempt, result, sentAt);
      }
    } catch (error) {
      log('heartbeats failed', { attempts: attempts.length, error: String(error) });
    }
  }

  #apply(attempt: RunningAttempt, result: ItemResult<Heartbeat>, sentAt: number): void {
    if (result.ok) {
      attempt.heartbeatDueAt = sentAt + attempt.job.heartbeat_s * 1_000;
      if (result.value.cancel_requested) attempt.abort('cancel_requested');
      return;
    }
    const { status, code } = result.error;
    // Anything else passes, and the next call comes soon.
    if (status !== 409 && status !== 404) return;
    attempt.isLost = true;
    attempt.abort(code === 'attempt_timed_out' ? 'timed_out' : 'lease_lost');
    this.#options.log('an attempt was lost', { job_id: attempt.job.job_id, attempt: attempt.job.attempt, code });
  }
}
