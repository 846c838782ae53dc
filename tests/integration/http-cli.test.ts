import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { runCli } from '../../services/cli/cli.ts';
import { ExitCode } from '../../services/cli/command.ts';
import { ok, refused } from '../../services/core/contract/problems.ts';
import { DAY_MS, HOUR_MS } from '../../services/core/domain/limits.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';
import { fullJobRow, jobRow, newCohort } from '../support/job-row.ts';

interface Ran {
  readonly code: ExitCode;
  readonly output: string;
  readonly errors: string;
  readonly json: unknown;
}

async function run(api: { readonly url: string }, ...words: readonly string[]): Promise<Ran> {
  let output = '';
  let errors = '';
  const code = await runCli([...words, '--api', api.url], {
    output: { write: (text) => void (output += text) },
    errors: { write: (text) => void (errors += text) },
  });
  return {
    code,
    output,
    errors,
    json: code === ExitCode.ok && words.includes('--json') ? JSON.parse(output) : undefined,
  };
}

async function apiWithJob(test: TestContext, overrides: Parameters<typeof jobRow>[2] = {}) {
  const api = await serveApi(test);
  const row = jobRow(newCohort(), 7, overrides);
  api.jobs.set(row.jobId, row);
  return { api, row };
}

describe('punctual job', () => {
  it('creates a job with every option, the payload in its own numbers', async (test) => {
    const api = await serveApi(test);
    const payload = '{"id":9007199254740993,"x":1.10,"s":"a\\u0000b"}';
    const created = await run(
      api,
      ...['job', 'create', 'mails', '--payload', payload, '--delay', '90.5', '--jitter', '10', '--priority', 'high'],
      ...['--max-attempts', '3', '--timeout', '20', '--lease', '40', '--label', 'region=eu', '--label', 'a=b=c'],
      ...['--expires-at', new Date(FAKE_START + HOUR_MS).toISOString(), '--key', 'order-1', '--json'],
    );
    assert.equal(created.code, ExitCode.ok, created.errors);
    assert.partialDeepStrictEqual(api.asked.created, [
      {
        queue: 'mails',
        payload,
        when: { delayMs: 90_500 },
        jitterMs: 10_000,
        priority: 'high',
        maxAttempts: 3,
        timeoutS: 20,
        leaseS: 40,
        labels: { region: 'eu', a: 'b=c' },
        expiresAt: FAKE_START + HOUR_MS,
        idempotencyKey: 'order-1',
      },
    ]);
    assert.partialDeepStrictEqual(created.json, { queue: 'mails', status: 'scheduled', replayed: false });
    assert.match(created.output, /"id": 9007199254740993,\s+"x": 1\.10/);
  });

  it('shows a job with its attempts, for people and for programs', async (test) => {
    const api = await serveApi(test);
    const row = { ...fullJobRow(newCohort(), 5), result: null, progress: null, payload: '{"x":1.10}' };
    api.jobs.set(row.jobId, row);
    const { code, output } = await run(api, 'job', 'get', row.jobId);
    assert.equal(code, ExitCode.ok);
    assert.match(output, /^status +dead$/m);
    assert.match(output, /^payload +\{"x":1\.10\}$/m);
    // A line break in an error text does not break the table.
    assert.match(output, /^last_error +boom and more$/m);
    assert.match(output, /^ATTEMPT +OUTCOME +WORKER +STARTED +ENDED +ERROR$/m);
    assert.match(output, /^2 +lease_expired +worker-2 +2026-11-15T06:00:01\.011Z +2026-11-15T06:00:01\.016Z +-$/m);
    const byKey = await run(api, 'job', 'get', '--key', 'order-17', '--json');
    assert.equal(byKey.code, ExitCode.refused, 'the key is of another owner');
    const fault = JSON.parse(byKey.output) as { error: string; problem: { status: number; code: string } };
    assert.deepEqual([fault.problem.status, fault.problem.code], [404, 'job_not_found']);
    assert.ok(fault.error.includes('job_not_found'));
    const wrong = await run(api, 'job', 'create', 'mails', '--label', 'x', '--json');
    assert.equal(wrong.code, ExitCode.usage);
    assert.match((JSON.parse(wrong.output) as { error: string }).error, /label/);
    assert.equal(((await run(api, 'job', 'get', row.jobId, '--json')).json as { job_id: string }).job_id, row.jobId);
  });

  it('lists page after page, as many as were asked for', async (test) => {
    const api = await serveApi(test);
    const cohort = newCohort();
    for (let member = 0; member < 12; member++) {
      const row = jobRow(cohort, member, { queue: 'mails', runAt: FAKE_START + member });
      api.jobs.set(row.jobId, row);
    }
    const window = ['--from', new Date(FAKE_START).toISOString()];
    // A page that is short, and has a next one.
    const { useCases } = api;
    api.override({
      listJobs: (request) => useCases.listJobs({ ...request, pageSize: Math.min(5, request.pageSize) }),
    });
    const all = await run(api, 'job', 'list', 'mails', ...window, '--json');
    assert.equal((all.json as object[]).length, 12);
    const some = await run(api, 'job', 'list', 'mails', ...window, '--limit', '7');
    assert.equal(some.output.split('\n').filter((line) => line.startsWith('j_')).length, 7);
    assert.match(some.output, /the first 7; --limit shows more/);
    assert.match((await run(api, 'job', 'list', 'other', ...window)).output, /no jobs/);
    assert.equal((await run(api, 'job', 'list', 'mails', '--status', 'ready')).code, ExitCode.refused);
  });

  it('lists the day behind, or for what is scheduled the day ahead, where no window is given, and says which', async (test) => {
    const api = await serveApi(test);
    const before = Date.now();
    const past = await run(api, 'job', 'list', 'mails');
    const ahead = await run(api, 'job', 'list', 'mails', '--status', 'scheduled');
    await run(api, 'job', 'list', 'mails', '--status', 'scheduled', '--to', new Date(FAKE_START).toISOString());
    const [first, second, third] = api.asked.lists;
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    assert.ok(first.to >= before && first.to <= Date.now() && first.to - first.from === DAY_MS);
    assert.ok(second.from >= before && second.from <= Date.now() && second.to - second.from === DAY_MS);
    assert.deepEqual([third.from, third.to], [FAKE_START - DAY_MS, FAKE_START]);
    const windowOf = ({ from, to }: typeof first): string =>
      `from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}\n`;
    assert.equal(past.output, `no jobs with a run_at ${windowOf(first)}`);
    assert.equal(ahead.output, `no jobs with a run_at ${windowOf(second)}`);
  });

  it('cancels, runs, replays and releases', async (test) => {
    const { api, row } = await apiWithJob(test, { status: 'running', attempt: 3 });
    assert.match((await run(api, 'job', 'cancel', row.jobId)).output, /asked to stop/);
    assert.match((await run(api, 'job', 'run', row.jobId)).output, /due now/);
    assert.match((await run(api, 'job', 'replay', row.jobId)).output, /due again/);
    assert.equal((await run(api, 'job', 'release', row.jobId)).code, ExitCode.ok);
    assert.equal((await run(api, 'job', 'release', row.jobId, '--attempt', '2')).code, ExitCode.ok);
    assert.deepEqual(api.asked.released, [
      { jobId: row.jobId, attempt: 3 },
      { jobId: row.jobId, attempt: 2 },
    ]);
  });

  it('traces a job to its rows and timers, with commands that print the queries', async (test) => {
    const runAt = Date.parse('2026-11-15T06:00:58Z');
    const { api, row } = await apiWithJob(test, {
      status: 'running',
      shard: 17,
      runAt,
      attempt: 1,
      leaseUntil: runAt + 90_000,
      deadlineAt: runAt + 120_000,
      starts: new Map([[1, { worker: 'w', claimId: 'c', startedAt: runAt + 10_000 }]]),
    });
    const { code, output, json } = await run(api, 'job', 'trace', row.jobId, '--json');
    assert.equal(code, ExitCode.ok);
    const { places } = json as { readonly places: readonly { readonly command: string }[] };
    assert.deepEqual(
      places.map(({ command }) => command.replace('./scripts/punctual cql ', '')),
      [
        `job ${row.jobId}`,
        'minute 17 2026-11-15T06:00',
        'deadlines 17 2026-11-15T06:01',
        'deadlines 17 2026-11-15T06:02',
        'deadlines 17 2026-11-15T06:02',
        'cursors 17',
      ],
    );
    for (const { command } of places) {
      const [, , name = '', ...words] = command.split(' ');
      assert.equal((await cql(name, ...words)).code, ExitCode.ok, command);
    }
    assert.match(output, /"job_id"/);
    assert.match((await run(api, 'job', 'trace', row.jobId)).output, /^due row +2026-11-15T06:00:58\.000Z +shard 17/m);
  });

  it('traces a dead job to its history and its dead letter', async (test) => {
    const finishedAt = Date.parse('2026-11-15T23:59:59Z');
    const { api, row } = await apiWithJob(test, { status: 'dead', finishedAt, reason: 'attempts' });
    const { output } = await run(api, 'job', 'trace', row.jobId);
    assert.match(output, /cql history mail 2026-11-15T23:00/);
    assert.match(output, /cql dead-letters mail 2026-11-15/);
    assert.doesNotMatch(output, /cql deadlines/);
  });
});

const WINDOW = ['--from', new Date(FAKE_START).toISOString(), '--to', new Date(FAKE_START + DAY_MS).toISOString()];

describe('punctual operation', () => {
  it('starts one under a key of its own, with all that a filter can say', async (test) => {
    const api = await serveApi(test);
    const only = ['--status', 'scheduled', '--label', 'a=b=c', '--error', 'HTTP 451', '--rate', '7.5', '--shift=-90'];
    const { code, output, errors } = await run(api, 'operation', 'start', 'reschedule', 'mail', ...WINDOW, ...only);
    assert.equal(code, ExitCode.ok, errors);
    assert.match(output, /^operation_id +o_\w+$/m);
    assert.match(output, /^only +scheduled, a=b=c, HTTP 451$/m);
    assert.partialDeepStrictEqual(api.asked.operations, [
      {
        verb: 'reschedule',
        filter: { queue: 'mail', status: 'scheduled', label: { name: 'a', value: 'b=c' }, error: 'HTTP 451' },
        newTime: { shiftMs: -90_000 },
        ratePerS: 7.5,
      },
    ]);
    assert.match(api.asked.operations[0]?.key?.text ?? '', /^\S{16,}$/);
  });

  it('moves jobs to earlier, and says which verb a mistyped one may mean', async (test) => {
    const api = await serveApi(test);
    assert.equal((await run(api, 'operation', 'start', 'reschedule', 'mail', ...WINDOW, '--shift', '-90')).code, 0);
    assert.partialDeepStrictEqual(api.asked.operations, [{ newTime: { shiftMs: -90_000 } }]);
    const mistyped = await run(api, 'operation', 'start', 'cancle', 'mail', ...WINDOW);
    assert.equal(mistyped.code, ExitCode.usage);
    assert.match(mistyped.errors, /no verb cancle; did you mean cancel\?/);
    const unknown = await run(api, 'operation', 'start', 'explode', 'mail', ...WINDOW);
    assert.match(unknown.errors, /no verb explode: give one of cancel, reschedule, run, replay, discard/);
    assert.equal(api.asked.operations.length, 1);
  });

  it('replays with another payload and to another queue, and shows both', async (test) => {
    const api = await serveApi(test);
    const changed = ['--payload', '{"n": 1.0}', '--queue', 'mended'];
    const whole = await run(api, 'operation', 'start', 'replay', 'mail', ...WINDOW, ...changed);
    assert.equal(whole.code, ExitCode.ok, whole.errors);
    assert.match(whole.output, /^queue +mail$/m);
    assert.match(whole.output, /^to_queue +mended$/m);
    assert.match(whole.output, /^payload +\{"n": ?1\.0\}$/m);
    const letters = await run(api, 'dead-letters', 'replay', 'mail', ...WINDOW, ...changed);
    assert.equal(letters.code, ExitCode.ok, letters.errors);
    assert.match(
      (await run(api, 'dead-letters', 'replay', 'mail', ...WINDOW, '--payload', 'null')).output,
      /^payload +none$/m,
    );
    assert.equal(
      (await run(api, 'dead-letters', 'discard', 'mail', ...WINDOW, '--queue', 'mended')).code,
      ExitCode.usage,
    );
    const payload = api.asked.operations[0]?.replayChanges?.payload;
    assert.match(payload ?? '', /^\{"n": ?1\.0\}$/);
    assert.deepEqual(
      api.asked.operations.map(({ filter, replayChanges }) => [
        filter.queue,
        replayChanges?.queue,
        replayChanges?.payload,
      ]),
      [
        ['mail', 'mended', payload],
        ['mail', 'mended', payload],
        ['mail', undefined, null],
      ],
    );
  });

  it('counts with --dry-run, and says when it did not count all', async (test) => {
    const { api, row } = await apiWithJob(test);
    const words = ['operation', 'start', 'cancel', 'mail', ...WINDOW, '--dry-run'];
    const { output } = await run(api, ...words);
    assert.match(output, /^1 match; the first of them:$/m);
    assert.match(output, new RegExp(`^${row.jobId} +scheduled`, 'm'));
    assert.deepEqual(api.asked.operations, []);
    api.override({ dryRun: async () => ok({ matched: 9, refused: 2, reached: FAKE_START, samples: [] }) });
    const cut = await run(api, ...words);
    assert.match(
      cut.output,
      /^at least 9 match \(not all is counted: up to 2026-[^)]+\); 2 more cannot be changed so$/m,
    );
  });

  it('waits for its end', async (test) => {
    const api = await serveApi(test);
    let asked = 0;
    api.override({
      getOperation: async (operationId) => {
        const ended = { status: 'done', changed: 3, finishedAt: FAKE_START } as const;
        return ok(bulkOperation({ operationId, ...(++asked > 1 && ended) }));
      },
    });
    const { operationId } = bulkOperation();
    const { json } = await run(api, 'operation', 'get', operationId, '--wait', '--json');
    assert.partialDeepStrictEqual(json, { operation_id: operationId, status: 'done', changed: 3 });
    const stopped = await run(api, 'operation', 'stop', operationId);
    assert.match(stopped.output, /^status +stopping$/m);
    assert.match((await run(api, 'operation', 'list')).output, /^o_\w+ +replay +mail +running/m);
  });
});

describe('punctual dead-letters', () => {
  it('lists them, page after page, with all attempts as JSON', async (test) => {
    const api = await serveApi(test);
    const cohort = newCohort();
    for (let member = 0; member < 5; member++) {
      const dead = {
        status: 'dead',
        finishedAt: FAKE_START + member,
        reason: 'attempts',
        lastError: 'HTTP 451',
      } as const;
      const row = jobRow(cohort, member, { queue: 'mails', ...dead });
      api.jobs.set(row.jobId, row);
    }
    const { useCases } = api;
    api.override({
      listDeadLetters: (request) => useCases.listDeadLetters({ ...request, pageSize: Math.min(2, request.pageSize) }),
    });
    const words = ['dead-letters', 'list', 'mails', ...WINDOW, '--error', '451'];
    const { json } = await run(api, ...words, '--json');
    assert.equal((json as object[]).length, 5);
    assert.partialDeepStrictEqual(json, [{ reason: 'attempts', error: 'HTTP 451', attempts: [] }]);
    const some = await run(api, ...words, '--limit', '3');
    assert.equal(some.output.split('\n').filter((line) => line.startsWith('j_')).length, 3);
    assert.match((await run(api, 'dead-letters', 'list', 'other', ...WINDOW)).output, /no dead letters/);
    assert.equal(api.asked.deadLists[0]?.error, '451');
  });

  it('lists those of the last day where no window is given, and says so', async (test) => {
    const api = await serveApi(test);
    const { output } = await run(api, 'dead-letters', 'list', 'mails');
    const [asked] = api.asked.deadLists;
    assert.ok(asked !== undefined && asked.to - asked.from === DAY_MS && Math.abs(asked.to - Date.now()) < HOUR_MS);
    const [from, to] = [asked.from, asked.to].map((at) => new Date(at).toISOString());
    assert.equal(output, `no dead letters from ${from ?? ''} to ${to ?? ''}\n`);
  });

  it('replays or discards nothing without a window, and help says so', async (test) => {
    const api = await serveApi(test);
    for (const verb of ['replay', 'discard']) {
      const { code, errors } = await run(api, 'dead-letters', verb, 'mail');
      assert.equal(code, ExitCode.usage);
      assert.match(errors, /--from and --to are required/);
    }
    assert.deepEqual(api.asked.operations, []);
    for (const command of ['dead-letters', 'operation']) {
      assert.match((await run(api, command, '--help')).output, /--to <time>\s+\(required\)/);
    }
  });

  it('replays and discards them as an operation', async (test) => {
    const api = await serveApi(test);
    for (const verb of ['replay', 'discard']) {
      assert.equal((await run(api, 'dead-letters', verb, 'mail', ...WINDOW, '--rate', '50')).code, ExitCode.ok);
    }
    assert.deepEqual(
      api.asked.operations.map(({ verb, ratePerS }) => [verb, ratePerS]),
      [
        ['replay', 50],
        ['discard', 50],
      ],
    );
  });
});

describe('the exit code of punctual job', () => {
  it('is 1 for a refusal, which is told', async (test) => {
    const { api, row } = await apiWithJob(test);
    api.override({ replayJob: async () => refused({ code: 'job_not_changeable', detail: 'Only a dead job can.' }) });
    const { code, output, errors } = await run(api, 'job', 'replay', row.jobId);
    assert.deepEqual([code, output, errors], [1, '', 'punctual: 409 job_not_changeable: Only a dead job can.\n']);
    const asJson = await run(api, 'job', 'replay', row.jobId, '--json');
    assert.deepEqual([asJson.code, asJson.errors], [1, '']);
    assert.partialDeepStrictEqual(JSON.parse(asJson.output), { problem: { status: 409, code: 'job_not_changeable' } });
    const wrong = await run(api, 'job', 'create', 'Mails');
    assert.equal(wrong.code, 1);
    assert.match(wrong.errors, /queue: must be 1 to 64 of a-z/);
  });

  it('is 2 for a command line that makes no sense', async (test) => {
    const api: HttpApi = await serveApi(test);
    for (const words of [
      ['job'],
      ['jobs', 'get'],
      ['job', 'gte', 'x'],
      ['job', 'constructor'],
      ['job', 'get'],
      ['job', 'get', 'a', 'b'],
      ['job', 'get', 'a', '--key', 'k'],
      ['job', 'create', 'q', '--payload', '{'],
      ['job', 'create', 'q', '--delay', 'soon'],
      ['job', 'create', 'q', '--label', 'novalue'],
      ['job', 'create', 'q', '--dealy', '3'],
      ['job', 'create', 'q', '--delay', '-3'],
      ['job', 'list', 'q', '--limit', '0'],
      ['queue', 'set', 'q', '--rate', '-5'],
      ['queue', 'set', 'q', '--rate'],
      ['job', 'list', 'q', '--from', 'yesterday'],
      ['job', 'release', 'a', '--attempt', '-1'],
      ['operation', 'start', 'cancel', 'mail', '--from', 'yesterday'],
      ['operation', 'stop'],
      ['dead-letters', 'replay', 'mail', ...WINDOW, '--rate', 'fast'],
    ]) {
      const { code, errors } = await run(api, ...words);
      assert.equal(code, 2, words.join(' '));
      assert.match(errors, /^punctual: [^]+\nSee punctual --help\.\n$/, words.join(' '));
    }
    assert.equal((await run({ url: 'localhost:7400' }, 'job', 'get', 'a')).code, 2);
    assert.deepEqual(api.asked.created, []);
  });

  it('is 3 for an API that is away', async () => {
    const { code, errors } = await run({ url: 'http://127.0.0.1:1' }, 'job', 'get', 'j_0123456789abc_00');
    assert.equal(code, 3);
    assert.match(errors, /ECONNREFUSED|bad port/);
  });

  it('is 0 for help', async (test) => {
    const { code, output } = await run(await serveApi(test), 'job', '--help');
    assert.equal(code, 0);
    for (const verb of ['create', 'get', 'list', 'cancel', 'run', 'replay', 'release', 'trace']) {
      assert.match(output, new RegExp(`^ +job ${verb} `, 'm'));
    }
  });
});

async function cql(...words: readonly string[]): Promise<{ readonly code: ExitCode }> {
  const silent = { write: () => undefined };
  return { code: await runCli(['cql', ...words], { output: silent, errors: silent }) };
}
