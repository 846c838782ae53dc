import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ok } from '../../services/core/contract/problems.ts';
import { DAY_MS, HOUR_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const at = (ms: number): string => new Date(FAKE_START + ms).toISOString();

function query(parameters: Readonly<Record<string, string | number>>): string {
  return `?${new URLSearchParams(Object.entries(parameters).map(([name, value]): [string, string] => [name, String(value)])).toString()}`;
}

const WINDOW = { queue: 'mail', from: at(0), to: at(DAY_MS) };
const JOBS = 25;

async function withJobs(api: HttpApi, overrides: Parameters<typeof jobRow>[2] = {}): Promise<readonly string[]> {
  const cohort = newCohort();
  const rows = Array.from({ length: JOBS }, (_, member) =>
    jobRow(cohort, member, { runAt: FAKE_START + member * 1_000, ...overrides }),
  );
  for (const row of rows) api.jobs.set(row.jobId, row);
  return rows.map(({ jobId }) => jobId);
}

async function detailOf(api: HttpApi, path: string): Promise<string> {
  const { status, body } = await api.call('GET', path);
  assert.equal(status, 400, path);
  return String(body['detail']);
}

type Listed = Readonly<Record<string, unknown>> & { readonly job_id: string };

/** Follows the tokens to the end. */
async function allPages(api: HttpApi, path: string, list: string, parameters: Record<string, string | number>) {
  const pages: (readonly Listed[])[] = [];
  let token: string | null = '';
  while (token !== null) {
    const more: Record<string, string> = token === '' ? {} : { page_token: token };
    const { status, body } = await api.call('GET', `${path}${query({ ...parameters, ...more })}`);
    assert.equal(status, 200, JSON.stringify(body));
    pages.push(body[list] as readonly Listed[]);
    token = body['next_page_token'] as string | null;
  }
  return pages;
}

describe('GET /jobs by queue and window', () => {
  it('lists by run_at, page after page, without payloads', async (test) => {
    const api = await serveApi(test);
    const ids = await withJobs(api);
    const pages = await allPages(api, '/jobs', 'jobs', { ...WINDOW, page_size: 10 });
    assert.deepEqual(
      pages.map((page) => page.length),
      [10, 10, 5],
    );
    const jobs = pages.flat();
    assert.deepEqual(
      jobs.map(({ job_id: jobId }) => jobId),
      ids,
    );
    assert.ok(jobs.every((job) => !('payload' in job) && job['payload_bytes'] !== 0));
    assert.deepEqual(api.asked.lists[0], {
      queue: 'mail',
      from: FAKE_START,
      to: FAKE_START + DAY_MS,
      status: null,
      label: null,
      pageSize: 10,
      after: null,
    });
    assert.partialDeepStrictEqual(api.asked.lists[1], { after: { at: FAKE_START + 9_000, jobId: ids[9] } });
  });

  it('bears pages that are short or empty and still have a next one', async (test) => {
    const api = await serveApi(test);
    const jobId = 'j_0123456789abc_00';
    // Also one that ends between two jobs.
    const nexts = [{ at: FAKE_START, jobId }, { at: FAKE_START + 1, jobId: '' }, null];
    api.override({ listJobs: async () => ok({ jobs: [], next: nexts.shift() ?? null }) });
    assert.equal((await allPages(api, '/jobs', 'jobs', WINDOW)).length, 3);
  });

  it('hands on status and label, of which the first = divides', async (test) => {
    const api = await serveApi(test);
    await api.call('GET', `/jobs${query({ ...WINDOW, status: 'dead', label: 'path=/a=b', page_size: 500 })}`);
    await api.call('GET', `/jobs${query({ ...WINDOW, label: 'empty=' })}`);
    assert.partialDeepStrictEqual(api.asked.lists, [
      { status: 'dead', label: { name: 'path', value: '/a=b' }, pageSize: 500 },
      { status: null, label: { name: 'empty', value: '' }, pageSize: 50 },
    ]);
  });

  it('says what is missing and what is wrong, with what would be right', async (test) => {
    const api = await serveApi(test);
    for (const [parameters, detail] of [
      [{ queue: 'mail' }, 'from: is required, unless idempotency_key names a job; to: is required, unless idem'],
      [{ ...WINDOW, queue: 'Mail' }, 'queue: must be 1 to 64 of a-z'],
      [{ ...WINDOW, from: '2026-11-15' }, 'from: must be RFC 3339 with an offset'],
      [{ ...WINDOW, from: 1_767_225_600 }, 'from: must be RFC 3339 with an offset'],
      [{ ...WINDOW, from: '2016-12-31T23:59:60Z' }, 'from: is a leap second'],
      [{ ...WINDOW, to: at(0) }, 'to: must lie after from'],
      [{ ...WINDOW, to: at(-1) }, 'to: must lie after from'],
      [
        { ...WINDOW, to: at(DAY_MS + 1) },
        'to: may lie at most 24 hours after from; ask for one window after the other',
      ],
      [{ ...WINDOW, status: 'ready' }, 'status: must be one of scheduled, enqueued, running, succeeded'],
      [{ ...WINDOW, label: 'region' }, "label: must be a label's name, =, and its value"],
      [{ ...WINDOW, label: '=eu' }, "label: must be a label's name, =, and its value"],
      [{ ...WINDOW, label: 'a=\u0000' }, 'label: must be text without control characters'],
      [{ ...WINDOW, page_size: 0 }, 'page_size: must be from 1 to 500'],
      [{ ...WINDOW, page_size: 501 }, 'page_size: must be from 1 to 500'],
      [{ ...WINDOW, page_size: 'all' }, 'page_size: must be a whole number, not text'],
      [{ ...WINDOW, page_size: '1e2' }, 'page_size: must be a whole number, not text'],
      [{ ...WINDOW, limit: 5 }, 'limit: is not a field here (the fields are'],
      [{ ...WINDOW, idempotency_key: 'k' }, 'queue: cannot go with idempotency_key, which names one job; from: cannot'],
    ] as const) {
      const told = await detailOf(api, `/jobs${query(parameters)}`);
      assert.ok(told.startsWith(detail), told);
    }
    assert.match(await detailOf(api, `/jobs${query(WINDOW)}&queue=other`), /^queue: must be text, not an array/);
    assert.deepEqual(api.asked.lists, []);
  });

  it('R081 shows the job that a page boundary falls on once', async (test) => {
    const api = await serveApi(test);
    // All at one instant: only the id tells them apart.
    const ids = await withJobs(api, { runAt: FAKE_START });
    const pages = await allPages(api, '/jobs', 'jobs', { ...WINDOW, page_size: 4 });
    assert.deepEqual(
      pages.flat().map(({ job_id: jobId }) => jobId),
      ids.toSorted(),
    );
  });
});

describe('a page token', () => {
  it('is good for its own list only, whatever the page size', async (test) => {
    const api = await serveApi(test);
    await withJobs(api);
    const first = await api.call('GET', `/jobs${query({ ...WINDOW, page_size: 5 })}`);
    const token = String(first.body['next_page_token']);
    assert.match(token, /^[A-Za-z0-9_.-]+$/);
    const again = await api.call('GET', `/jobs${query({ ...WINDOW, page_size: 7, page_token: token })}`);
    assert.equal((again.body['jobs'] as object[]).length, 7);
    const others: readonly [string, object][] = [
      ['/jobs', { ...WINDOW, queue: 'other' }],
      ['/jobs', { ...WINDOW, from: at(1) }],
      ['/jobs', { ...WINDOW, to: at(HOUR_MS) }],
      ['/jobs', { ...WINDOW, status: 'dead' }],
      ['/jobs', { ...WINDOW, label: 'a=b' }],
      ['/dead-letters', WINDOW],
    ];
    for (const [path, parameters] of others) {
      const detail = await detailOf(api, `${path}${query({ ...(parameters as typeof WINDOW), page_token: token })}`);
      assert.match(detail, /^page_token: is not from a page of this list/);
    }
    const middle = token.length - 1;
    const forged = token.slice(0, middle) + (token[middle] === 'A' ? 'B' : 'A');
    for (const wrong of ['x', '.', 'a.b', `${token}.`, forged, token.slice(1), token.toLowerCase(), '%00']) {
      const detail = await detailOf(api, `/jobs${query({ ...WINDOW, page_token: wrong })}`);
      assert.match(detail, /^page_token: /, wrong);
    }
    assert.match(
      await detailOf(api, `/jobs${query({ ...WINDOW, page_token: '' })}`),
      /^page_token: must be a next_page/,
    );
  });

  it('holds for the same instant written another way', async (test) => {
    const api = await serveApi(test);
    await withJobs(api);
    const first = await api.call('GET', `/jobs${query({ ...WINDOW, page_size: 5 })}`);
    const from = at(0).replace('Z', '+00:00');
    const page_token = String(first.body['next_page_token']);
    assert.equal((await api.call('GET', `/jobs${query({ ...WINDOW, from, page_token })}`)).status, 200);
  });
});

describe('GET /dead-letters', () => {
  it('lists by the time of death, page after page', async (test) => {
    const api = await serveApi(test);
    const died: Parameters<typeof jobRow>[2] = {
      status: 'dead',
      finishedAt: FAKE_START,
      reason: 'attempts',
      attempt: 5,
      lastError: 'boom',
      labels: { region: 'eu' },
      starts: new Map([[5, { worker: 'worker-1', claimId: 'c', startedAt: FAKE_START - 1_000 }]]),
      ends: new Map([[5, { endedAt: FAKE_START, outcome: 'failed', error: 'boom' }]]),
    };
    const ids = await withJobs(api, died);
    const pages = await allPages(api, '/dead-letters', 'dead_letters', {
      ...WINDOW,
      to: at(31 * DAY_MS),
      page_size: 20,
    });
    assert.deepEqual(
      pages.flat().map(({ job_id: jobId }) => jobId),
      ids.toSorted(),
    );
    assert.deepEqual(pages[0]?.[0], {
      job_id: ids[0],
      href: `/jobs/${ids[0]}`,
      queue: 'mail',
      dead_at: at(0),
      attempt: 5,
      reason: 'attempts',
      error: 'boom',
      labels: { region: 'eu' },
      attempts: [
        {
          attempt: 5,
          worker: 'worker-1',
          started_at: at(-1_000),
          ended_at: at(0),
          outcome: 'failed',
          error: 'boom',
        },
      ],
    });
    assert.partialDeepStrictEqual(api.asked.deadLists[1], { pageSize: 20, after: { at: FAKE_START } });
  });

  it('asks for a queue and a window of at most 31 days', async (test) => {
    const api = await serveApi(test);
    assert.match(await detailOf(api, '/dead-letters'), /^queue: is required; from: is required; to: is required$/);
    const wide = { ...WINDOW, to: at(31 * DAY_MS + 1) };
    assert.match(await detailOf(api, `/dead-letters${query(wide)}`), /^to: may lie at most 31 days after from/);
    assert.match(
      await detailOf(api, `/dead-letters${query({ ...WINDOW, status: 'dead' })}`),
      /^status: is not a field/,
    );
  });

  it('hands on label and a part of the error', async (test) => {
    const api = await serveApi(test);
    await api.call('GET', `/dead-letters${query({ ...WINDOW, label: 'region=eu', error: '451 = "try later"' })}`);
    assert.partialDeepStrictEqual(api.asked.deadLists, [
      { label: { name: 'region', value: 'eu' }, error: '451 = "try later"' },
    ]);
    assert.match(await detailOf(api, `/dead-letters${query({ ...WINDOW, error: '' })}`), /^error: must be 1 to 256/);
  });
});
