// The REST API as a product service would call it: plain fetch, no client of ours.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface AttemptView {
  readonly worker: string;
  readonly started_at: string;
  readonly ended_at: string;
  readonly outcome: string;
  readonly error: string | null;
}

/** What answers hold, as far as these tests look at them; each answer has some of it. */
export interface Body {
  readonly job_id: string;
  readonly status: string;
  readonly payload: unknown;
  readonly scheduled_for: string;
  readonly attempts: readonly AttemptView[];
  readonly tries: number;
  /** Of a report. */
  readonly replayed: boolean;
  /** Of a page. */
  readonly jobs: readonly Body[];
  readonly next_page_token: string | null;
  /** Of a batch. */
  readonly results: readonly { readonly status: number; readonly job_id: string }[];
  /** Of a refusal. */
  readonly code: string;
}

export async function call(
  method: string,
  url: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text) as Body };
}

/** Creates a job and returns its id; anything but 201 fails the test. */
export async function createJob(apiUrl: string, job: object): Promise<string> {
  const { status, body } = await call('POST', `${apiUrl}/jobs`, job);
  assert.equal(status, 201, JSON.stringify(body));
  return body.job_id;
}

export async function getJob(apiUrl: string, jobId: string): Promise<Body> {
  const { status, body } = await call('GET', `${apiUrl}/jobs/${jobId}`);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

/** Polls until the job has the status; fails with what it is instead. */
export async function untilStatus(apiUrl: string, jobId: string, status: string, withinMs: number): Promise<Body> {
  return until(`${jobId} ${status}`, withinMs, async () => {
    const job = await getJob(apiUrl, jobId);
    return job.status === status ? job : undefined;
  });
}

/** Polls until the step gives something; fails after the time. */
export async function until<T>(what: string, withinMs: number, step: () => Promise<T | undefined>): Promise<T> {
  const limit = Date.now() + withinMs;
  for (;;) {
    const found = await step();
    if (found !== undefined) return found;
    if (Date.now() > limit) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(50);
  }
}

/** Runs the step for each item, at most `width` at a time, and returns the results in order. */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  step: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array<R>(items.length);
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(width, items.length) }, async () => {
      while (next < items.length) {
        const index = next++;
        results[index] = await step(items[index] as T);
      }
    }),
  );
  return results;
}
