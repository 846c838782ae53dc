import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { NodeConnectionOptions } from '@nats-io/transport-node';
import { type ItemResult, PunctualClient } from './client.ts';
import { RefusedError } from './errors.ts';
import { failureOf, Snooze } from './failures.ts';
import { Heartbeats } from './heartbeats.ts';
import { MergingCalls } from './merging-calls.ts';
import { ReadyFeed } from './ready-feed.ts';
import type { ReadyMessage } from './ready-message.ts';
import { RunningAttempt } from './running-attempt.ts';
import type { AttemptItem, ClaimedJob, ClaimItem, Report, ReportAnswer, ReportItem } from './types.ts';
import { logToConsole, type WorkerLog } from './worker-log.ts';

export interface JobContext {
  /** Aborts when going on is in vain; its reason is an AttemptAborted. A handler that takes long should heed it. */
  readonly signal: AbortSignal;
  readonly worker: string;
  /** Any JSON of at most 1 KiB, for those who read the job; it goes with the next heartbeat. Throws RangeError beyond. */
  readonly progress: (value: unknown) => void;
}

/**
 * What a handler returns is kept as the job's result, if it is at most 4 KiB of JSON; what it throws is a failure, or what
 * the signal says when that was aborted. A Snooze, returned or thrown, puts the job off.
 */
export type JobHandler = (job: ClaimedJob, context: JobContext) => unknown;

export interface WorkerOptions {
  readonly apiUrl: string | readonly string[];
  readonly apiKey?: string | undefined;
  /** host:port of each. */
  readonly natsServers: readonly string[];
  /** Credentials, TLS and the like. */
  readonly nats?: NodeConnectionOptions | undefined;
  readonly queue: string;
  readonly handler: JobHandler;
  /** Jobs at once; default 10. */
  readonly concurrency?: number | undefined;
  /** For people who read a job's history; default: host and process. */
  readonly name?: string | undefined;
  /** How long stop() waits for running jobs; default 30,000. */
  readonly drainMs?: number | undefined;
  readonly log?: WorkerLog | undefined;
}

const CONCURRENCY_DEFAULT = 10;
const DRAIN_DEFAULT_MS = 30_000;
/** The API's bound for the items of a worker's batch call. */
const BATCH_MAX_ITEMS = 100;
/** Two tries of a claim, within the 15 s after which its message is delivered again. */
const CALL_TIMEOUT_MS = 5_000;
const CALL_RETRIES = 1;
/** Between tries while NATS or the API is away. */
const TROUBLE_PAUSE_MS = 500;
const GIVE_BACK_MIN_MS = 500;
const GIVE_BACK_MAX_MS = 4_000;
const REPORT_AGAIN_MAX_MS = 5_000;
const RESULT_MAX_BYTES = 4_096;
/** What a handler gets, after its signal was aborted at the end of a drain, to end and to have its job given back. */
const LEAVE_MS = 1_000;

/** What becomes of an attempt whose handler has ended. */
type End = Report | 'give_back';

/**
 * Works a queue: takes ready messages from JetStream while slots are free, claims them over REST, runs the handler, keeps the
 * lease, reports. A message is only a hint: it is acknowledged right after its claim, whatever came of that.
 */
export class Worker {
  readonly name: string;
  readonly #queue: string;
  readonly #handler: JobHandler;
  readonly #concurrency: number;
  readonly #drainMs: number;
  readonly #log: WorkerLog;
  readonly #client: PunctualClient;
  readonly #connection: NodeConnectionOptions;
  readonly #claims: MergingCalls<ClaimItem, ItemResult<ClaimedJob>>;
  readonly #reports: MergingCalls<ReportItem, ItemResult<ReportAnswer>>;
  readonly #releases: MergingCalls<AttemptItem, ItemResult<ReportAnswer>>;
  readonly #heartbeats: Heartbeats;
  /** Marks our claims, so that one whose answer was lost is found again. */
  readonly #token = randomUUID();
  readonly #stopping = new AbortController();
  readonly #running = new Set<RunningAttempt>();
  /** Job and attempt of what is being claimed or run. */
  readonly #inHand = new Set<string>();
  #occupied = 0;
  #onSlotFree: (() => void) | undefined;
  #claimsFail = false;
  #leaving = false;
  #started: { readonly feed: ReadyFeed; readonly loop: Promise<void> } | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    this.name = options.name ?? `${hostname()}-${process.pid}`;
    this.#queue = options.queue;
    this.#handler = options.handler;
    this.#concurrency = options.concurrency ?? CONCURRENCY_DEFAULT;
    this.#drainMs = options.drainMs ?? DRAIN_DEFAULT_MS;
    this.#log = options.log ?? logToConsole;
    this.#connection = { name: this.name, ...options.nats, servers: [...options.natsServers] };
    const { apiUrl, apiKey } = options;
    const client = new PunctualClient({ apiUrl, apiKey, timeoutMs: CALL_TIMEOUT_MS, retries: CALL_RETRIES });
    this.#client = client;
    this.#claims = new MergingCalls(BATCH_MAX_ITEMS, (items) => client.claimJobs(items, this.name));
    this.#reports = new MergingCalls(BATCH_MAX_ITEMS, (items) => client.completeJobs(items));
    this.#releases = new MergingCalls(BATCH_MAX_ITEMS, (items) => client.releaseJobs(items));
    this.#heartbeats = new Heartbeats({ client, running: this.#running, log: this.#log, itemsMax: BATCH_MAX_ITEMS });
  }

  /** Returns at once; while the API or NATS is away it keeps trying. */
  start(): void {
    if (this.#started !== undefined) return;
    const feed = new ReadyFeed({
      connection: this.#connection,
      learnConsumers: async () => (await this.#client.getQueue(this.#queue)).ready,
      log: this.#log,
    });
    this.#heartbeats.start();
    this.#started = { feed, loop: this.#pullLoop(feed) };
  }

  /**
   * Takes no more jobs, and ends when those in hand are reported. After drainMs the rest is aborted: handlers that heed it
   * have their jobs given back at once; those that do not are left to the lease, for they may still be at work.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    this.#onSlotFree?.();
    if (this.#started === undefined) return;
    const { feed, loop } = this.#started;
    feed.stopPulling();
    await loop;
    if (!(await this.#isIdleWithin(this.#drainMs))) {
      this.#leaving = true;
      for (const attempt of this.#running) attempt.abort('worker_stopping');
      await this.#isIdleWithin(LEAVE_MS);
      for (const attempt of this.#running) attempt.end();
    }
    this.#heartbeats.stop();
    await feed.close();
  }

  async #pullLoop(feed: ReadyFeed): Promise<void> {
    let trouble = '';
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#slotFree();
        const messages = await feed.take(this.#concurrency - this.#occupied);
        trouble = '';
        for (const message of messages) this.#take(message);
        if (this.#claimsFail) await this.#pause(TROUBLE_PAUSE_MS);
      } catch (error) {
        if (String(error) !== trouble) this.#log('cannot take jobs', { queue: this.#queue, error: String(error) });
        trouble = String(error);
        await this.#pause(TROUBLE_PAUSE_MS);
      }
    }
  }

  async #slotFree(): Promise<void> {
    while (this.#occupied >= this.#concurrency && !this.#stopping.signal.aborted) await this.#nextChange();
  }

  #take(message: ReadyMessage): void {
    if (this.#stopping.signal.aborted) {
      message.giveBack(0);
      return;
    }
    this.#occupied++;
    void this.#work(message).finally(() => {
      this.#occupied--;
      this.#onSlotFree?.();
    });
  }

  /** Never rejects. */
  async #work(message: ReadyMessage): Promise<void> {
    const key = `${message.jobId} ${message.attempt}`;
    // Delivered again while we claim or run it, its acknowledgement lost or late: a claim would find our own mark, and the same
    // attempt would run twice. Not acknowledged, for the first claim may still fail and need the message.
    if (this.#inHand.has(key)) {
      message.giveBack(GIVE_BACK_MAX_MS);
      return;
    }
    this.#inHand.add(key);
    try {
      await this.#workOnce(message);
    } finally {
      this.#inHand.delete(key);
    }
  }

  async #workOnce(message: ReadyMessage): Promise<void> {
    const job = await this.#claim(message);
    if (job === null) return;
    const attempt = new RunningAttempt(job);
    this.#running.add(attempt);
    try {
      const end = await this.#run(attempt);
      await this.#report(attempt, end);
    } finally {
      attempt.end();
      this.#running.delete(attempt);
    }
  }

  async #claim(message: ReadyMessage): Promise<ClaimedJob | null> {
    const { jobId, attempt, sequence } = message;
    try {
      const result = await this.#claims.submit({ job_id: jobId, attempt, claim_id: `${this.#token}.${sequence}` });
      if (!result.ok && isPassing(result.error)) throw result.error;
      message.ack();
      this.#claimsFail = false;
      return result.ok ? result.value : null;
    } catch (error) {
      this.#log('a claim failed', { job_id: jobId, attempt, error: String(error) });
      this.#claimsFail = true;
      message.giveBack(Math.min(GIVE_BACK_MAX_MS, GIVE_BACK_MIN_MS * 2 ** (message.deliveries - 1)));
      return null;
    }
  }

  async #run(attempt: RunningAttempt): Promise<End> {
    try {
      const progress = (value: unknown): void => {
        attempt.setProgress(value);
      };
      const result = await this.#handler(attempt.job, { signal: attempt.signal, worker: this.name, progress });
      return result instanceof Snooze ? snoozeOf(result) : { ok: true, ...this.#keptResult(attempt, result) };
    } catch (error) {
      return this.#endOf(attempt, error);
    }
  }

  #endOf({ job, abortCause }: RunningAttempt, error: unknown): End {
    if (abortCause === 'cancel_requested') return { cancelled: true };
    if (abortCause === 'worker_stopping') return 'give_back';
    if (error instanceof Snooze) return snoozeOf(error);
    if (abortCause === undefined) {
      this.#log('a handler failed', { job_id: job.job_id, attempt: job.attempt, error: String(error) });
    }
    return failureOf(error);
  }

  #keptResult(attempt: RunningAttempt, result: unknown): { readonly result?: unknown } {
    if (result === undefined) return {};
    const text = JSON.stringify(result) as string | undefined;
    if (text !== undefined && Buffer.byteLength(text) <= RESULT_MAX_BYTES) return { result };
    this.#log('a result is too large to be kept', { job_id: attempt.job.job_id, bytes_max: RESULT_MAX_BYTES });
    return {};
  }

  /** Again and again until it is accepted or refused, for a report repeated changes nothing; once when we leave. */
  async #report(attempt: RunningAttempt, end: End): Promise<void> {
    const item = { job_id: attempt.job.job_id, attempt: attempt.job.attempt };
    for (let wait = TROUBLE_PAUSE_MS; !attempt.isLost; wait = Math.min(REPORT_AGAIN_MAX_MS, 2 * wait)) {
      try {
        const result = await (end === 'give_back'
          ? this.#releases.submit(item)
          : this.#reports.submit({ ...item, ...end }));
        if (result.ok) return;
        throw result.error;
      } catch (error) {
        this.#log('a report failed', { ...item, error: String(error) });
        if (this.#leaving || (error instanceof RefusedError && !isPassing(error))) return;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async #isIdleWithin(ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    while (this.#occupied > 0) {
      const left = until - performance.now();
      if (left <= 0) return false;
      await Promise.race([this.#nextChange(), new Promise((resolve) => setTimeout(resolve, left).unref())]);
    }
    return true;
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#onSlotFree = resolve;
    });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const { signal } = this.#stopping;
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      }
      signal.addEventListener('abort', done);
    });
  }
}

function snoozeOf({ snoozeS }: Snooze): Report {
  return { snooze_s: snoozeS };
}

/** The store or the API is in trouble: the same call may succeed soon. */
function isPassing(error: RefusedError): boolean {
  return error.status === 429 || error.status >= 500;
}
