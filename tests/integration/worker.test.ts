import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { JobFailure, type JobHandler, Snooze, Worker, type WorkerOptions } from '../../services/client/index.ts';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import type { ReadyMessage, ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { messageOf } from '../conformance/ready-queue.suite.ts';
import { ApiDouble, refusal } from '../support/api-double.ts';
import {
  connectedBus,
  dropStreams,
  eventually,
  natsServers,
  RecordingTelemetry,
  silentLog,
  testPrefix,
  whenConnected,
} from '../support/bus.ts';
import { startPrivateNats } from '../support/servers.ts';

interface Fixture {
  readonly api: ApiDouble;
  readonly queue: ReadyQueue;
  readonly start: (handler: JobHandler, options?: Partial<WorkerOptions>) => Worker;
  /** Messages in the ready stream, acknowledged ones excluded. */
  readonly left: () => Promise<number>;
  readonly unacknowledged: (priority: string) => Promise<number>;
}

describe('the worker', async () => {
  const bus = await connectedBus();
  after(() => bus.close());

  async function fixture(test: TestContext): Promise<Fixture> {
    const prefix = testPrefix();
    const api = new ApiDouble();
    const apiUrl = await api.start();
    const queue = createReadyQueue(
      { prefix, maxBytes: 16 * 1024 * 1024 },
      { bus, clock: systemClock, telemetry: new RecordingTelemetry(), log: silentLog },
    );
    api.ready.push(...(await queue.ensureQueue('mail')));
    const workers: Worker[] = [];
    test.after(async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
      api.stop();
      await dropStreams(bus, prefix);
    });
    const { jsm } = bus.link();
    const stream = `${prefix}READY_0`;
    return {
      api,
      queue,
      start: (handler, options = {}) => {
        const worker = new Worker({
          apiUrl,
          natsServers: natsServers(),
          queue: 'mail',
          handler,
          log: () => undefined,
          drainMs: 1_000,
          ...options,
        });
        workers.push(worker);
        worker.start();
        return worker;
      },
      left: async () => (await jsm.streams.info(stream)).state.messages,
      unacknowledged: async (priority) => (await jsm.consumers.info(stream, `q_mail_p_${priority}`)).num_ack_pending,
    };
  }

  const messages = (count: number, overrides: Partial<ReadyMessage> = {}): ReadyMessage[] =>
    Array.from({ length: count }, (_, index) => messageOf(index, overrides));

  it('claims, runs and completes what is there, in batches', async (test) => {
    const { api, queue, start, left } = await fixture(test);
    await queue.publish(messages(100));
    start(() => ({ done: true }), { concurrency: 20 });
    await eventually(() => api.completed.length === 100, '100 jobs completed');
    assert.equal(await left(), 0);
    assert.equal(new Set(api.completed.map((item) => item['job_id'])).size, 100);
    assert.deepEqual(api.completed[0], { job_id: messageOf(0).jobId, attempt: 1, ok: true, result: { done: true } });
    const claims = api.calls.filter(({ path }) => path === '/jobs/claim');
    assert.ok(claims.length < 50, `${claims.length} calls for 100 claims`);
  });

  it('starts a job within milliseconds of its message', async (test) => {
    const { api, queue, start } = await fixture(test);
    const startedAt: number[] = [];
    start(() => startedAt.push(performance.now()));
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(api.calls.length, 0, 'an idle worker asks the API nothing');
    const lagsMs: number[] = [];
    for (let index = 0; index < 11; index++) {
      const publishedAt = performance.now();
      await queue.publish([messageOf(index)]);
      await eventually(() => startedAt.length === index + 1, 'started');
      lagsMs.push(startedAt[index]! - publishedAt);
    }
    const medianMs = lagsMs.sort((a, b) => a - b)[5]!;
    assert.ok(medianMs < 100, `started after ${medianMs} ms`);
  });

  it('claims in one call what was published together while it waited', async (test) => {
    const { api, queue, start } = await fixture(test);
    start(() => undefined, { concurrency: 20 });
    for (let time = 1; time <= 5; time++) {
      // A request is held open by then.
      await new Promise((resolve) => setTimeout(resolve, 300));
      await queue.publish(Array.from({ length: 10 }, (_, index) => messageOf(10 * time + index)));
      await eventually(() => api.completed.length === 10 * time, `${10 * time} jobs completed`);
    }
    const sizes = api.calls.filter(({ path }) => path === '/jobs/claim').map(({ items }) => items.length);
    // Five, unless a message was delivered before the next ones of its group were stored.
    assert.ok(sizes.length <= 8, `claims of ${String(sizes)}`);
  });

  it('sees a new message of a low priority while those of a higher one keep coming', async (test) => {
    const { queue, start, left } = await fixture(test);
    let ends = 0;
    let lowAt = Infinity;
    start(
      async (job) => {
        if (job.job_id === messageOf(5_000).jobId) lowAt = ends;
        ends++;
        await new Promise((resolve) => setTimeout(resolve, 5));
      },
      { concurrency: 4 },
    );
    // Both had nothing, and their requests are held open; that of the low one ends with this message.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await queue.publish([messageOf(4_999, { priority: 'low' })]);
    await eventually(() => ends === 1, 'the first low one');
    await queue.publish(messages(400, { priority: 'high' }));
    await eventually(() => ends > 20, 'high ones');
    await queue.publish([messageOf(5_000, { priority: 'low' })]);
    await eventually(async () => (await left()) === 0, 'all');
    assert.ok(lowAt < 300, `the low one was the ${lowAt}th of 402`);
  });

  it('hands the payload over parsed and as it was written', async (test) => {
    const { api, queue, start } = await fixture(test);
    const text = '{ "n": 12345678901234567890, "t": "\\u00e9 \\"]}", "payload": [1.0, {}] }';
    api.payloads.set(messageOf(1).jobId, text);
    const seen: unknown[] = [];
    start((job) => seen.push(job.payload, job.payloadText));
    await queue.publish([messageOf(0), messageOf(1)]);
    await eventually(() => seen.length === 4, 'both ran');
    const first = seen.indexOf(null);
    assert.deepEqual(seen.splice(first, 2), [null, null]);
    assert.deepEqual(seen, [JSON.parse(text), text]);
  });

  it('R068 takes no more than it has slots for, high priority first: no message waits in it to be acknowledged', async (test) => {
    const { api, queue, start, unacknowledged } = await fixture(test);
    await queue.publish([...messages(6, { priority: 'low' }), ...messages(6), ...messages(6, { priority: 'high' })]);
    let running = 0;
    let most = 0;
    const finish: (() => void)[] = [];
    start(
      async () => {
        most = Math.max(most, ++running);
        await new Promise<void>((resolve) => finish.push(resolve));
        running--;
      },
      { concurrency: 3 },
    );
    await eventually(() => running === 3, 'three run');
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(api.itemsOf('/jobs/claim').length, 3);
    for (const priority of ['high', 'normal', 'low']) assert.equal(await unacknowledged(priority), 0);
    await eventually(() => {
      finish.splice(0).forEach((done) => done());
      return api.completed.length === 18;
    }, 'all done');
    assert.equal(most, 3);
  });

  it('reports failures with what the handler knows', async (test) => {
    const { api, queue, start } = await fixture(test);
    start((job) => {
      if (job.attempt === 1) throw new Error('no luck '.repeat(1_000));
      throw new JobFailure('never', { retryable: false, retryAfterS: 7 });
    });
    await queue.publish([messageOf(1), messageOf(2, { attempt: 2 })]);
    await eventually(() => api.completed.length === 2, 'both reported');
    const [first, second] = api.completed.sort((a, b) => Number(a['attempt']) - Number(b['attempt']));
    assert.match(String(first?.['error']), /^Error: no luck/);
    assert.equal(String(first?.['error']).length, 2_048);
    assert.equal(first?.['ok'], false);
    assert.deepEqual(second, {
      job_id: messageOf(2).jobId,
      attempt: 2,
      ok: false,
      error: 'never',
      retryable: false,
      retry_after_s: 7,
    });
  });

  it('heartbeats all running jobs in one call, and stops those that are lost', async (test) => {
    const { api, queue, start } = await fixture(test);
    api.heartbeatS = 1;
    const lost = messageOf(2).jobId;
    const cancelled = messageOf(3).jobId;
    api.override = (path, item) => {
      if (path !== '/jobs/heartbeat') return undefined;
      if (item['job_id'] === lost) return refusal(409, 'lease_lost');
      if (item['job_id'] !== cancelled) return undefined;
      return { status: 200, lease_until: '', deadline: '', cancel_requested: true };
    };
    const aborts = new Map<string, string>();
    start(async (job, { signal, progress }) => {
      progress({ step: 1 });
      assert.throws(() => progress('x'.repeat(2_000)), RangeError);
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          aborts.set(job.job_id, String(signal.reason));
          reject(signal.reason as Error);
        });
      });
    });
    await queue.publish(messages(5));
    await eventually(() => aborts.size === 2, 'two aborted');
    assert.match(aborts.get(lost) ?? '', /lease_lost/);
    assert.match(aborts.get(cancelled) ?? '', /cancel_requested/);
    const beat = api.calls.find(({ path }) => path === '/jobs/heartbeat');
    assert.equal(beat?.items.length, 5);
    assert.deepEqual(beat.items[0], { job_id: messageOf(0).jobId, attempt: 1, progress: { step: 1 } });
    await eventually(() => api.completed.length === 1, 'the cancelled one is reported');
    assert.deepEqual(api.completed, [{ job_id: cancelled, attempt: 1, cancelled: true }]);
  });

  it('lets success win over a cancel request', async (test) => {
    const { api, queue, start } = await fixture(test);
    api.heartbeatS = 1;
    api.override = (path) =>
      path === '/jobs/heartbeat' ? { status: 200, lease_until: '', deadline: '', cancel_requested: true } : undefined;
    start((_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve('done'))));
    await queue.publish([messageOf(1)]);
    await eventually(() => api.completed.length === 1, 'reported');
    assert.partialDeepStrictEqual(api.completed, [{ ok: true, result: 'done' }]);
  });

  it('puts off what its handler cannot do yet, returned or thrown', async (test) => {
    const { api, queue, start } = await fixture(test);
    const thrown = messageOf(1).jobId;
    start((job) => {
      if (job.job_id === thrown) throw new Snooze(0.5);
      return new Snooze(90);
    });
    await queue.publish(messages(2));
    await eventually(() => api.completed.length === 2, 'both reported');
    const snoozed = new Map(api.completed.map((report) => [report['job_id'], report['snooze_s']]));
    assert.deepEqual([snoozed.get(messageOf(0).jobId), snoozed.get(thrown)], [90, 0.5]);
    for (const wrong of [-1, Number.NaN, Infinity]) assert.throws(() => new Snooze(wrong), RangeError);
  });

  it('aborts a job at its time limit', async (test) => {
    const { api, queue, start } = await fixture(test);
    api.timeoutS = 0.3;
    start(
      (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    );
    await queue.publish([messageOf(1)]);
    await eventually(() => api.completed.length === 1, 'reported');
    assert.match(String(api.completed[0]?.['error']), /timed_out/);
  });

  it('drops a message whose claim is refused, and gives it back while the store is away', async (test) => {
    const { api, queue, start, left } = await fixture(test);
    const claimed: unknown[] = [];
    let away = true;
    api.override = (path, item) => {
      if (path !== '/jobs/claim') return undefined;
      if (item['job_id'] === messageOf(1).jobId) return refusal(409, 'lease_lost');
      claimed.push(item['claim_id']);
      return away ? refusal(503, 'store_unavailable') : undefined;
    };
    start(() => undefined);
    await queue.publish([messageOf(1), messageOf(2)]);
    await eventually(async () => (await left()) === 1 && claimed.length > 0, 'the refused one is gone');
    away = false;
    await eventually(() => api.completed.length === 1, 'the other ran');
    assert.ok(claimed.length >= 2);
    assert.equal(new Set(claimed).size, 1, 'a message delivered again is claimed by the same mark');
    await eventually(async () => (await left()) === 0, 'nothing is left');
  });

  it('runs no attempt twice at once, however often its message comes', async (test) => {
    const { api, queue, start, left } = await fixture(test);
    api.override = (path, item) => {
      const isOver = api.completed.some((each) => each['job_id'] === item['job_id']);
      return path === '/jobs/claim' && isOver ? refusal(409, 'job_finished') : undefined;
    };
    const runs: string[] = [];
    const released = Promise.withResolvers<undefined>();
    start(({ job_id }) => {
      runs.push(job_id);
      return job_id === messageOf(1).jobId ? released.promise : undefined;
    });
    await queue.publish([messageOf(1), messageOf(1), messageOf(2)]);
    await eventually(() => api.completed.length === 1, 'the other job ran, so all three messages came');
    assert.deepEqual(runs.toSorted(), [messageOf(1).jobId, messageOf(2).jobId].toSorted());
    released.resolve(undefined);
    await eventually(async () => (await left()) === 0, 'nothing is left', 10_000);
    assert.equal(runs.length, 2);
  });

  it('reports again until it is heard, and runs nothing twice for it', async (test) => {
    const { api, queue, start } = await fixture(test);
    let runs = 0;
    start(() => {
      runs++;
      api.failing = 503;
      setTimeout(() => {
        api.failing = undefined;
      }, 1_500);
    });
    await queue.publish([messageOf(1)]);
    await eventually(() => api.completed.length === 1, 'reported', 10_000);
    assert.equal(runs, 1);
  });

  it('ends what it runs before it stops, and leaves the rest to others at once', async (test) => {
    const { api, queue, start } = await fixture(test);
    const stopping = start(() => new Promise((resolve) => setTimeout(resolve, 400)), { concurrency: 2 });
    await queue.publish(messages(2));
    await eventually(() => api.itemsOf('/jobs/claim').length === 2, 'two run');
    const stopped = stopping.stop();
    await queue.publish(messages(3, { attempt: 2 }));
    await stopped;
    assert.equal(api.completed.length, 2);
    start(() => undefined);
    const took = await eventually(() => api.completed.length === 5, 'another took the rest');
    assert.ok(took < 1_000, `after ${took} ms`);
  });

  it('leaves a job that does not end in time to the lease', async (test) => {
    const { api, queue, start } = await fixture(test);
    const worker = start(() => new Promise(() => undefined), { drainMs: 100 });
    await queue.publish([messageOf(1)]);
    await eventually(() => api.itemsOf('/jobs/claim').length === 1, 'it runs');
    await worker.stop();
    assert.equal(api.completed.length, 0);
  });

  it('gives back at the end of a drain what its handlers let go of', async (test) => {
    const { api, queue, start } = await fixture(test);
    const worker = start(
      (job, { signal }) =>
        new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => {
            if (job.job_id === messageOf(0).jobId) resolve('finished after all');
            else reject(signal.reason as Error);
          });
        }),
      { drainMs: 100 },
    );
    await queue.publish(messages(3));
    await eventually(() => api.itemsOf('/jobs/claim').length === 3, 'all run');
    await worker.stop();
    const released = api.itemsOf('/jobs/release').map((item) => item['job_id']);
    assert.deepEqual(released.toSorted(), [messageOf(1).jobId, messageOf(2).jobId].toSorted());
    assert.partialDeepStrictEqual(api.itemsOf('/jobs/complete'), [{ ok: true, result: 'finished after all' }]);
  });

  it('goes on when NATS was killed and is back', async (test) => {
    const server = await startPrivateNats(test);
    const own = await connectedBus([server.contactPoint]);
    const api = new ApiDouble();
    const parts = { bus: own, clock: systemClock, telemetry: new RecordingTelemetry(), log: silentLog };
    const queue = createReadyQueue({}, parts);
    api.ready.push(...(await queue.ensureQueue('mail')));
    const worker = new Worker({
      apiUrl: await api.start(),
      natsServers: [server.contactPoint],
      queue: 'mail',
      handler: () => undefined,
      log: () => undefined,
    });
    test.after(async () => {
      await worker.stop();
      await own.close();
      api.stop();
    });
    worker.start();
    await queue.publish([messageOf(1)]);
    await eventually(() => api.completed.length === 1, 'the first ran');
    await server.process.kill('SIGKILL');
    await server.restart();
    await whenConnected(own);
    assert.deepEqual(await queue.publish([messageOf(2)]), ['stored']);
    await eventually(() => api.completed.length === 2, 'the second ran');
  });

  it('goes on when the ready stream was lost and made again', async (test) => {
    const { api, queue, start } = await fixture(test);
    start(() => undefined);
    await queue.publish([messageOf(1)]);
    await eventually(() => api.completed.length === 1, 'the first ran');
    const stream = api.ready[0]!.stream;
    await bus.link().jsm.streams.delete(stream);
    assert.deepEqual(await queue.publish([messageOf(2)]), ['stored']);
    await eventually(() => api.completed.length === 2, 'the second ran');
  });
});
