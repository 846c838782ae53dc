import { AttemptAborted, type AbortCause } from './failures.ts';
import type { ClaimedJob } from './types.ts';

/** The API's bound. */
const PROGRESS_MAX_BYTES = 1_024;

/** An attempt in this worker's hands, from its claim to its report. */
export class RunningAttempt {
  readonly job: ClaimedJob;
  readonly #controller = new AbortController();
  readonly #timeLimit: NodeJS.Timeout;
  /** On the monotonic clock. */
  heartbeatDueAt: number;
  /** The API said that it is no longer ours: it takes no report. */
  isLost = false;
  /** Undefined until the handler tells any. */
  progress: unknown;

  constructor(job: ClaimedJob) {
    this.job = job;
    this.heartbeatDueAt = performance.now() + job.heartbeat_s * 1_000;
    this.#timeLimit = setTimeout(() => this.abort('timed_out'), job.timeout_s * 1_000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Undefined while nothing speaks against going on. */
  get abortCause(): AbortCause | undefined {
    const reason: unknown = this.signal.reason;
    return reason instanceof AttemptAborted ? reason.abortCause : undefined;
  }

  setProgress(value: unknown): void {
    // A heartbeat that is refused for its progress would keep no lease.
    if (value !== undefined && Buffer.byteLength(JSON.stringify(value)) > PROGRESS_MAX_BYTES) {
      throw new RangeError(`progress may be at most ${PROGRESS_MAX_BYTES} bytes of JSON text`);
    }
    this.progress = value;
  }

  /** The first cause counts. */
  abort(cause: AbortCause): void {
    this.#controller.abort(new AttemptAborted(cause));
  }

  end(): void {
    clearTimeout(this.#timeLimit);
  }
}
