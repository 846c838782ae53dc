import { RefusedError } from './errors.ts';
import { Http, type HttpAnswer, type HttpOptions, problemOf } from './http.ts';
import { rawMember, rawMembersOf } from './raw-json.ts';
import type {
  AcceptedJob,
  ClaimedJob,
  ClaimItem,
  Heartbeat,
  HeartbeatItem,
  Job,
  NewJob,
  Queue,
  Report,
  ReportAnswer,
  ReportItem,
} from './types.ts';

export type ClientOptions = HttpOptions;

export interface CreateOptions {
  /** Makes a repeat of the call harmless, so that the client may repeat it itself. */
  readonly idempotencyKey?: string;
}

/** The result of one item of a batch call. */
export type ItemResult<T> =
  | { readonly ok: true; readonly status: number; readonly value: T }
  | { readonly ok: false; readonly error: RefusedError };

/** Punctual's REST API. All methods throw PunctualError; a batch call's items fail each on its own. */
export class PunctualClient {
  readonly #http: Http;

  constructor(options: ClientOptions) {
    this.#http = new Http(options);
  }

  /** `replayed`: the idempotency key had been used for this very job before. */
  async createJob(job: NewJob, options: CreateOptions = {}): Promise<Job & { readonly replayed: boolean }> {
    const { json, headers } = await this.#http.call({
      method: 'POST',
      path: '/jobs',
      body: job,
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined || job.idempotency_key !== undefined,
    });
    return { ...(json as Job), replayed: headers.get('idempotency-replayed') === 'true' };
  }

  /** At most 1,000 jobs; results in their order. The key covers the whole call: a repeat of it is exact. */
  async createJobs(jobs: readonly NewJob[], options: CreateOptions = {}): Promise<readonly ItemResult<AcceptedJob>[]> {
    const answer = await this.#http.call({
      method: 'POST',
      path: '/jobs/batch',
      body: { jobs },
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined,
    });
    return itemsOf<AcceptedJob>(answer);
  }

  async getJob(jobId: string): Promise<Job> {
    const { json } = await this.#http.call({ method: 'GET', path: jobPath(jobId), repeatable: true });
    return json as Job;
  }

  /** Cancels a job that waits; throws RefusedError job_running or job_finished otherwise. */
  async cancelJob(jobId: string): Promise<Job> {
    const { json } = await this.#http.call({ method: 'DELETE', path: jobPath(jobId), repeatable: true });
    return json as Job;
  }

  async getQueue(queue: string): Promise<Queue> {
    const path = `/queues/${encodeURIComponent(queue)}`;
    const { json } = await this.#http.call({ method: 'GET', path, repeatable: true });
    return json as Queue;
  }

  async claim(item: ClaimItem, worker: string): Promise<ClaimedJob> {
    const { job_id: jobId, ...body } = item;
    const answer = await this.#post(jobPath(jobId, '/claim'), { ...body, worker }, item.claim_id !== undefined);
    return withPayloadText(answer.json as ClaimedJob, () => rawMember(answer.text, 'payload'));
  }

  /** At most 100 items. */
  async claimJobs(items: readonly ClaimItem[], worker: string): Promise<readonly ItemResult<ClaimedJob>[]> {
    const repeatable = items.every((item) => item.claim_id !== undefined);
    const answer = await this.#post('/jobs/claim', { items, worker }, repeatable);
    const payloadTexts = once(() => rawMembersOf(answer.text, 'results', 'payload'));
    return itemsOf<ClaimedJob>(answer).map((result, index) =>
      result.ok ? { ...result, value: withPayloadText(result.value, () => payloadTexts()[index]) } : result,
    );
  }

  async heartbeat({ job_id: jobId, ...body }: HeartbeatItem): Promise<Heartbeat> {
    return (await this.#post(jobPath(jobId, '/heartbeat'), body, true)).json as Heartbeat;
  }

  /** At most 100 items. */
  async heartbeatJobs(items: readonly HeartbeatItem[]): Promise<readonly ItemResult<Heartbeat>[]> {
    return itemsOf<Heartbeat>(await this.#post('/jobs/heartbeat', { items }, true));
  }

  /** A report repeated is answered as the first one was. */
  async complete(jobId: string, attempt: number, report: Report): Promise<ReportAnswer> {
    return (await this.#post(jobPath(jobId, '/complete'), { attempt, ...report }, true)).json as ReportAnswer;
  }

  /** At most 100 items. */
  async completeJobs(items: readonly ReportItem[]): Promise<readonly ItemResult<ReportAnswer>[]> {
    return itemsOf<ReportAnswer>(await this.#post('/jobs/complete', { items }, true));
  }

  #post(path: string, body: unknown, repeatable: boolean): Promise<HttpAnswer> {
    return this.#http.call({ method: 'POST', path, body, repeatable });
  }
}

interface WireItem {
  readonly status: number;
  readonly error?: unknown;
}

function itemsOf<T>({ json }: HttpAnswer): readonly ItemResult<T>[] {
  const { results } = json as { readonly results: readonly WireItem[] };
  return results.map((item) =>
    item.error === undefined
      ? { ok: true, status: item.status, value: item as unknown as T }
      : { ok: false, error: new RefusedError(problemOf(item.status, item.error)) },
  );
}

function jobPath(jobId: string, verb = ''): string {
  return `/jobs/${encodeURIComponent(jobId)}${verb}`;
}

function keyHeader({ idempotencyKey }: CreateOptions): Readonly<Record<string, string>> {
  return idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
}

function withPayloadText(job: ClaimedJob, cut: () => string | undefined): ClaimedJob {
  const text = once(() => (job.payload === null || job.payload === undefined ? null : (cut() ?? null)));
  return Object.defineProperty({ ...job }, 'payloadText', { get: text, enumerable: false });
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}
