import { randomUUID } from 'node:crypto';
import { RefusedError } from './errors.ts';
import { Http, type HttpAnswer, type HttpOptions, problemOf } from './http.ts';
import { rawMember, rawMembersOf } from './raw-json.ts';
import type {
  AcceptedJob,
  AcceptedSchedule,
  AttemptItem,
  BackfillRange,
  BackfilledSlot,
  ChangedSchedules,
  ClaimItem,
  ClaimedJob,
  DeadLetterFilter,
  DeadLetterPage,
  DeletedSchedule,
  DryRun,
  Heartbeat,
  HeartbeatItem,
  Job,
  JobFilter,
  JobPage,
  JobPatch,
  LeaseRequest,
  ListWindow,
  NewJob,
  NewOperation,
  Operation,
  OperationPage,
  NewQueueSettings,
  NewSchedule,
  PageRequest,
  PauseRequest,
  PreviewOptions,
  Queue,
  QueuePage,
  QueueSettings,
  ReplayChanges,
  Report,
  ReportAnswer,
  ReportItem,
  RunFilter,
  Schedule,
  ScheduleFilter,
  SchedulePage,
  SchedulePatch,
  SchedulePause,
  SchedulePreview,
  ScheduleRunPage,
  SchedulesPause,
  SchedulesResume,
} from './types.ts';

export type ClientOptions = HttpOptions;

/** The API's own. */
const LEASE_WAIT_DEFAULT_S = 5;

export interface CreateOptions {
  /** Makes a repeat of the call harmless, so that the client may repeat it itself. */
  readonly idempotencyKey?: string;
}

export interface ChangeOptions {
  /** Throws RefusedError changed_meanwhile, and changes nothing, when the revision is another by now. */
  readonly ifRevision?: number;
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
    const answer = await this.#http.call({
      method: 'POST',
      path: '/jobs',
      body: job,
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined || job.idempotency_key !== undefined,
    });
    return withMember(jobOf(answer), 'replayed', answer.headers.get('idempotency-replayed') === 'true');
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
    return jobOf(await this.#http.call({ method: 'GET', path: jobPath(jobId), repeatable: true }));
  }

  /** Cancels a job that waits; throws RefusedError job_running or job_finished otherwise. */
  async cancelJob(jobId: string): Promise<Job> {
    return jobOf(await this.#http.call({ method: 'DELETE', path: jobPath(jobId), repeatable: true }));
  }

  /** The first job of a batch that was created under `key` stands under `key/0`. */
  async findJobByKey(key: string): Promise<Job> {
    const path = `/jobs${queryOf({ idempotency_key: key })}`;
    return jobOf(await this.#http.call({ method: 'GET', path, repeatable: true }));
  }

  /** Only while the job is scheduled; else it throws RefusedError and nothing changes. */
  async changeJob(jobId: string, patch: JobPatch): Promise<Job> {
    return jobOf(await this.#http.call({ method: 'PATCH', path: jobPath(jobId), body: patch, repeatable: false }));
  }

  /** As cancelJob; the worker of a running job is asked to stop, and `requested` is true then. */
  async requestCancel(jobId: string): Promise<Job & { readonly requested: boolean }> {
    const answer = await this.#post(jobPath(jobId, '/cancel'), undefined, true);
    return withMember(jobOf(answer), 'requested', answer.status === 202);
  }

  /** Makes a scheduled job due now. */
  async runJob(jobId: string): Promise<Job> {
    return jobOf(await this.#post(jobPath(jobId, '/run'), undefined, false));
  }

  /** Makes a dead job due now, with as many tries again; perhaps with another payload, or in another queue. */
  async replayJob(jobId: string, changes?: ReplayChanges): Promise<Job> {
    return jobOf(await this.#post(jobPath(jobId, '/replay'), changes, false));
  }

  /** One page, by run_at. */
  async listJobs(filter: JobFilter): Promise<JobPage> {
    const path = `/jobs${queryOf({ ...filter })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as JobPage;
  }

  /** One page of a window of at most 31 days, by the time of death. */
  async listDeadLetters(filter: DeadLetterFilter): Promise<DeadLetterPage> {
    const path = `/dead-letters${queryOf({ ...filter })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as DeadLetterPage;
  }

  /** What an operation would change, counted for some seconds at most. */
  async dryRun(operation: NewOperation): Promise<DryRun> {
    return dryRunOf(await this.#post('/operations', { ...operation, dry_run: true }, true));
  }

  /** One act on all jobs that a filter names; it goes on by itself. */
  async startOperation(operation: NewOperation, options: CreateOptions = {}): Promise<Operation> {
    const answer = await this.#http.call({
      method: 'POST',
      path: '/operations',
      body: operation,
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined,
    });
    return operationOf(answer);
  }

  async getOperation(operationId: string): Promise<Operation> {
    const path = operationPath(operationId);
    return operationOf(await this.#http.call({ method: 'GET', path, repeatable: true }));
  }

  /** One page, the newest first. */
  async listOperations(page: Pick<ListWindow, 'page_size' | 'page_token'> = {}): Promise<OperationPage> {
    const path = `/operations${queryOf({ ...page })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as OperationPage;
  }

  /** What it has changed stays. */
  async stopOperation(operationId: string): Promise<Operation> {
    return operationOf(await this.#post(operationPath(operationId, '/stop'), undefined, true));
  }

  async getQueue(queue: string): Promise<Queue> {
    return (await this.#http.call({ method: 'GET', path: queuePath(queue), repeatable: true })).json as Queue;
  }

  /** One page of the queues that somebody configured or that have jobs, by name. */
  async listQueues(page: PageRequest = {}): Promise<QueuePage> {
    const path = `/queues${queryOf({ ...page })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as QueuePage;
  }

  /** Sets all of them: what is left out has its default. */
  setQueue(queue: string, settings: NewQueueSettings, options: ChangeOptions = {}): Promise<QueueSettings> {
    return this.#changeQueue('PUT', queue, settings, options);
  }

  /** What is absent stays, null sets the default. */
  changeQueue(queue: string, patch: NewQueueSettings, options: ChangeOptions = {}): Promise<QueueSettings> {
    return this.#changeQueue('PATCH', queue, patch, options);
  }

  /** Nothing more of it starts until it is resumed, or until the time given (RFC 3339). */
  async pauseQueue(queue: string, pause: PauseRequest = {}): Promise<QueueSettings> {
    return (await this.#post(queuePath(queue, '/pause'), pause, true)).json as QueueSettings;
  }

  async resumeQueue(queue: string): Promise<QueueSettings> {
    return (await this.#post(queuePath(queue, '/resume'), undefined, true)).json as QueueSettings;
  }

  /** `replayed`: the idempotency key had been used for this very schedule before. */
  async createSchedule(
    schedule: NewSchedule,
    options: CreateOptions = {},
  ): Promise<Schedule & { readonly replayed: boolean }> {
    const answer = await this.#http.call({
      method: 'POST',
      path: '/schedules',
      body: schedule,
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined,
    });
    return withMember(scheduleOf(answer), 'replayed', answer.headers.get('idempotency-replayed') === 'true');
  }

  /** At most 1,000; results in their order. The key covers the whole call: a repeat of it is exact. */
  async createSchedules(
    schedules: readonly NewSchedule[],
    options: CreateOptions = {},
  ): Promise<readonly ItemResult<AcceptedSchedule>[]> {
    const answer = await this.#http.call({
      method: 'POST',
      path: '/schedules/batch',
      body: { schedules },
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined,
    });
    return itemsOf<AcceptedSchedule>(answer);
  }

  /** Makes or changes the schedule of a name of your own; the same content changes nothing. */
  async putSchedule(
    name: string,
    schedule: NewSchedule,
    options: ChangeOptions = {},
  ): Promise<Schedule & { readonly created: boolean }> {
    const answer = await this.#changed('PUT', schedulePath(name), schedule, options);
    return withMember(scheduleOf(answer), 'created', answer.status === 201);
  }

  /** By its id, or by its name, as in all that follow. */
  async getSchedule(schedule: string): Promise<Schedule> {
    return scheduleOf(await this.#http.call({ method: 'GET', path: schedulePath(schedule), repeatable: true }));
  }

  /** One page. */
  async listSchedules(filter: ScheduleFilter = {}): Promise<SchedulePage> {
    const { paused, ...others } = filter;
    const path = `/schedules${queryOf({ ...others, ...(paused !== undefined && { paused: String(paused) }) })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as SchedulePage;
  }

  /** What is absent stays; occurrences that exist already stay as they are. */
  async changeSchedule(schedule: string, patch: SchedulePatch, options: ChangeOptions = {}): Promise<Schedule> {
    return scheduleOf(await this.#changed('PATCH', schedulePath(schedule), patch, options));
  }

  /** Its occurrences stay, unless those that wait are to be cancelled. */
  async deleteSchedule(
    schedule: string,
    options: ChangeOptions & { readonly cancelPending?: boolean } = {},
  ): Promise<DeletedSchedule> {
    const query = options.cancelPending === true ? '?cancel_pending=true' : '';
    const answer = await this.#changed('DELETE', `${schedulePath(schedule)}${query}`, undefined, options);
    return answer.json as DeletedSchedule;
  }

  async pauseSchedule(schedule: string, pause: SchedulePause = {}, options: ChangeOptions = {}): Promise<Schedule> {
    return scheduleOf(await this.#changed('POST', schedulePath(schedule, '/pause'), pause, options));
  }

  async resumeSchedule(schedule: string, options: ChangeOptions = {}): Promise<Schedule> {
    return scheduleOf(await this.#changed('POST', schedulePath(schedule, '/resume'), undefined, options));
  }

  /** One call; go on with next_page_token until it is null. With dry_run it only counts. */
  async pauseSchedules(request: SchedulesPause): Promise<ChangedSchedules> {
    return (await this.#post('/schedules/pause', request, true)).json as ChangedSchedules;
  }

  /** As pauseSchedules. */
  async resumeSchedules(request: SchedulesResume): Promise<ChangedSchedules> {
    return (await this.#post('/schedules/resume', request, true)).json as ChangedSchedules;
  }

  /** Leaves the next slot out. */
  async skipNextSlot(schedule: string, options: ChangeOptions = {}): Promise<Schedule> {
    return scheduleOf(await this.#changed('POST', schedulePath(schedule, '/skip-next'), undefined, options));
  }

  /** A job with the schedule's work, due now, beside its slots. */
  async runSchedule(schedule: string, options: CreateOptions = {}): Promise<Job & { readonly replayed: boolean }> {
    const answer = await this.#http.call({
      method: 'POST',
      path: schedulePath(schedule, '/run'),
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined,
    });
    return withMember(jobOf(answer), 'replayed', answer.headers.get('idempotency-replayed') === 'true');
  }

  /** A job for each slot of a time that has passed, at most 1,000. */
  async backfillSchedule(
    schedule: string,
    range: BackfillRange,
    options: CreateOptions = {},
  ): Promise<readonly BackfilledSlot[]> {
    const answer = await this.#http.call({
      method: 'POST',
      path: schedulePath(schedule, '/backfill'),
      body: range,
      headers: keyHeader(options),
      repeatable: options.idempotencyKey !== undefined || range.dry_run === true,
    });
    return (answer.json as { readonly results: readonly BackfilledSlot[] }).results;
  }

  async previewSchedule(schedule: string, options: PreviewOptions = {}): Promise<SchedulePreview> {
    const path = `${schedulePath(schedule, '/preview')}${queryOf({ ...options })}`;
    return (await this.#post(path, undefined, true)).json as SchedulePreview;
  }

  /** Validates as createSchedule does, and makes nothing. */
  async previewNewSchedule(schedule: NewSchedule, options: PreviewOptions = {}): Promise<SchedulePreview> {
    return (await this.#post(`/schedules/preview${queryOf({ ...options })}`, schedule, true)).json as SchedulePreview;
  }

  /** One page, the latest slot first. */
  async listScheduleRuns(schedule: string, filter: RunFilter = {}): Promise<ScheduleRunPage> {
    const path = `${schedulePath(schedule, '/runs')}${queryOf({ ...filter })}`;
    return (await this.#http.call({ method: 'GET', path, repeatable: true })).json as ScheduleRunPage;
  }

  /**
   * Takes ready jobs and claims them, waiting for a first one; [] when none came. For workers without a NATS client.
   * @param signal breaks the wait off; nothing is claimed then.
   */
  async lease(queue: string, request: LeaseRequest, signal?: AbortSignal): Promise<readonly ClaimedJob[]> {
    const answer = await this.#http.call({
      method: 'POST',
      path: queuePath(queue, '/lease'),
      // Marks the claims, so that the same call, sent again after a lost answer, finds them.
      body: { claim_id: randomUUID(), ...request },
      repeatable: true,
      waitMs: (request.wait_s ?? LEASE_WAIT_DEFAULT_S) * 1_000,
      signal,
    });
    const payloadTexts = once(() => rawMembersOf(answer.text, null, 'payload'));
    return (answer.json as readonly ClaimedJob[]).map((job, index) =>
      withPayloadText(job, () => payloadTexts()[index]),
    );
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

  /** Gives a running attempt back at once; the try is not counted. */
  async release(jobId: string, attempt: number): Promise<ReportAnswer> {
    return (await this.#post(jobPath(jobId, '/release'), { attempt }, true)).json as ReportAnswer;
  }

  /** At most 100 items. */
  async releaseJobs(items: readonly AttemptItem[]): Promise<readonly ItemResult<ReportAnswer>[]> {
    return itemsOf<ReportAnswer>(await this.#post('/jobs/release', { items }, true));
  }

  /** Repeated, it finds its own change made; where it named a revision, only the caller can tell whose change that was. */
  async #changeQueue(
    method: 'PUT' | 'PATCH',
    queue: string,
    body: NewQueueSettings,
    { ifRevision }: ChangeOptions,
  ): Promise<QueueSettings> {
    const headers = ifRevision === undefined ? {} : { 'if-match': `"${ifRevision}"` };
    const repeatable = ifRevision === undefined;
    const { json } = await this.#http.call({ method, path: queuePath(queue), body, headers, repeatable });
    return json as QueueSettings;
  }

  /** As #changeQueue: where it named a revision, only the caller can tell whose change that was. */
  #changed(
    method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body: unknown,
    { ifRevision }: ChangeOptions,
  ): Promise<HttpAnswer> {
    const headers = ifRevision === undefined ? {} : { 'if-match': `"${ifRevision}"` };
    return this.#http.call({ method, path, body, headers, repeatable: ifRevision === undefined });
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

function operationPath(operationId: string, verb = ''): string {
  return `/operations/${encodeURIComponent(operationId)}${verb}`;
}

function schedulePath(schedule: string, verb = ''): string {
  return `/schedules/${encodeURIComponent(schedule)}${verb}`;
}

function operationOf({ json, text }: HttpAnswer): Operation {
  return withPayloadText(json as Operation, () => rawMember(text, 'payload'));
}

function dryRunOf({ json, text }: HttpAnswer): DryRun {
  return withPayloadText(json as DryRun, () => rawMember(text, 'payload'));
}

function scheduleOf({ json, text }: HttpAnswer): Schedule {
  return withPayloadText(json as Schedule, () => rawMember(text, 'payload'));
}

function queuePath(queue: string, verb = ''): string {
  return `/queues/${encodeURIComponent(queue)}${verb}`;
}

/** `?name=value&...`, or nothing where all are undefined. */
function queryOf(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  return given.length === 0 ? '' : `?${query.toString()}`;
}

function keyHeader({ idempotencyKey }: CreateOptions): Readonly<Record<string, string>> {
  return idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
}

function jobOf({ json, text }: HttpAnswer): Job {
  return withPayloadText(json as Job, () => rawMember(text, 'payload'));
}

/** A spread would read the payload's text. */
function withMember<T extends object, Name extends string, V>(object: T, name: Name, value: V): T & Record<Name, V> {
  return Object.defineProperty(object, name, { value, enumerable: true }) as T & Record<Name, V>;
}

function withPayloadText<T extends { readonly payload: unknown; readonly payloadText: string | null }>(
  job: T,
  cut: () => string | undefined,
): T {
  const text = once(() => (job.payload === null || job.payload === undefined ? null : (cut() ?? null)));
  return Object.defineProperty({ ...job }, 'payloadText', { get: text, enumerable: false });
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}
