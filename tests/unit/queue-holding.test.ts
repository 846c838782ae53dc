// Design section 7: what a queue does not take at its time becomes held rows, and nobody else waits for it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import {
  HOLDING_MAX,
  HOUR_MS,
  MINUTE_MS,
  MOVING_ROWS_MAX,
  READY_MAX_DEFAULT,
  SECOND_MS,
  SIFTING_MAX,
} from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { DispatchWorld, type WorldOptions } from '../support/dispatch-world.ts';

const FLOOD = 25_000;

async function world(options: WorldOptions = {}): Promise<DispatchWorld> {
  const made = new DispatchWorld(options);
  await made.start();
  return made;
}

function cursorsOf({ core, shards }: DispatchWorld): readonly number[] {
  return Array.from({ length: shards }, (_, shard) => core.stores.positions.get(`dispatch ${shard}`) ?? 0);
}

function ids(jobs: readonly { readonly jobId: string }[]): readonly string[] {
  return jobs.map(({ jobId }) => jobId).toSorted();
}

describe('a paused queue', () => {
  it('holds what is due, lets the cursor go on, and starts each job once when it is resumed', async () => {
    const w = await world();
    await w.configure('flood', { pause: { at: w.now, reason: null, until: null } });
    const jobs = w.schedule(500, { queue: 'flood', inMs: 500 });
    await w.run(10);
    assert.equal(w.count('flood', JobStatus.scheduled), 500);
    assert.equal(w.held('flood'), 500);
    for (const cursor of cursorsOf(w)) assert.ok(cursor > w.now - 10 * SECOND_MS, 'a cursor waits');
    await w.configure('flood', { pause: null, resumedAt: w.now });
    await w.run(2);
    assert.deepEqual(ids(w.published('flood')), ids(jobs));
    assert.equal(w.count('flood', JobStatus.enqueued), 500);
  });

  it('makes no other queue wait', async () => {
    const w = await world();
    await w.configure('flood', { pause: { at: w.now, reason: null, until: null } });
    w.schedule(5_000, { queue: 'flood', inMs: 500 });
    const calm = w.schedule(5, { queue: 'calm', inMs: 600, together: 1 });
    await w.run(1);
    assert.deepEqual(ids(w.published('calm')), ids(calm));
    for (const { atMs } of w.published('calm')) assert.ok(atMs <= 700, `${atMs} ms`);
  });

  it('makes no other queue wait while the store takes long to hold what is due, nor asks it for all at once', async () => {
    let [writing, most] = [0, 0];
    const w: DispatchWorld = await world({
      strikes: ({ method }) => {
        if (method !== 'held.write') return undefined;
        writing += 1;
        most = Math.max(most, writing);
        w.core.clock.after(5 * SECOND_MS, () => (writing -= 1));
        return { kind: 'slow', afterMs: 5 * SECOND_MS };
      },
    });
    await w.configure('flood', { pause: { at: w.now, reason: null, until: null } });
    w.schedule(FLOOD, { queue: 'flood', inMs: 500 });
    const calm = [600, 1_600, 2_600].flatMap((inMs) => w.schedule(20, { queue: 'calm', inMs, together: 1 }));
    await w.run(4);
    assert.deepEqual(ids(w.published('calm')), ids(calm));
    for (const { jobId, atMs } of w.published('calm')) {
      const lagMs = atMs - (calm.find((job) => job.jobId === jobId)!.runAt - FAKE_START);
      assert.ok(lagMs <= 150, `${lagMs} ms late`);
    }
    assert.ok(most > 0 && most <= 8, `${most} writes at once`);
  });

  it('has what waited for its turn held in a few writes', async () => {
    let writes = 0;
    const w: DispatchWorld = await world({
      strikes: ({ method }) => {
        if (method === 'held.write') writes += 1;
        return method === 'cohorts.apply' ? { kind: 'slow', afterMs: SECOND_MS } : undefined;
      },
    });
    w.schedule(5_000, { queue: 'flood' });
    await w.run(1);
    await w.configure('flood', { pause: { at: w.now, reason: null, until: null } });
    await w.run(3);
    assert.ok(w.held('flood') > 2_500, `${w.held('flood')} held`);
    assert.ok(writes <= 2 * w.shards, `${writes} writes`);
  });

  it('ends its pause by itself at the time that was set', async () => {
    const w = await world();
    await w.configure('mail', { pause: { at: w.now, reason: null, until: w.now + 5_000 } });
    const jobs = w.schedule(3, { queue: 'mail', inMs: 500 });
    await w.run(7);
    assert.deepEqual(ids(w.published('mail')), ids(jobs));
    for (const { atMs } of w.published('mail')) assert.ok(atMs >= 5_000 && atMs <= 5_300, `${atMs} ms`);
  });
});

describe('a queue with a rate', () => {
  it('starts at its rate, evenly, the first of them at once', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 20, burst: 5 });
    w.schedule(1_000, { queue: 'mail', inMs: 500 });
    await w.run(11);
    const at = w.published('mail').map(({ atMs }) => atMs);
    const perSecond = [2, 3, 4, 5, 6, 7, 8, 9, 10].map(
      (s) => at.filter((ms) => ms >= s * SECOND_MS && ms < (s + 1) * SECOND_MS).length,
    );
    for (const count of perSecond) assert.ok(Math.abs(count - 20) <= 4, String(perSecond));
    const total = at.length;
    assert.ok(total >= 200 && total <= 225, String(total));
  });

  it('keeps what is left over for a burst after a quiet time', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 1, burst: 10 });
    w.schedule(1, { queue: 'mail' });
    await w.run(30);
    w.schedule(20, { queue: 'mail' });
    await w.run(2);
    const { length } = w.published('mail');
    assert.ok(length >= 11 && length <= 13, String(length));
  });

  it('gives a slow queue its job at once, and the next when it is time', async () => {
    const w = await world();
    await w.configure('slow', { ratePerS: 0.1 });
    w.schedule(3, { queue: 'slow', inMs: 2_000, together: 1 });
    await w.run(35);
    const at = w.published('slow').map(({ atMs }) => Math.round(atMs / SECOND_MS));
    assert.deepEqual(at, [2, 12, 22]);
  });

  it('gets the part of another dispatcher only while that holds nothing of it', async () => {
    for (const [held, perS] of [
      [[], 40],
      [[{ queue: 'mail', priority: 'normal', count: 100, oldestAt: FAKE_START }], 20],
    ] as const) {
      const w = new DispatchWorld();
      await w.start(2);
      await w.configure('mail', { ratePerS: 40, burst: 1 });
      // About half of them are the other's.
      w.schedule(1_000, { queue: 'mail', inMs: 500, together: 1 });
      for (let second = 0; second < 8; second += 1) {
        w.core.parts.heldBoard.note({ member: 'dispatcher-2', shards: 2, held });
        await w.run(1);
      }
      const steady = w.published('mail').filter(({ atMs }) => atMs >= 3_000 && atMs < 8_000).length / 5;
      assert.ok(Math.abs(steady - perS) <= perS / 10, `${steady} of ${perS} a second`);
    }
  });

  it('starts held jobs in the order of their time, over all shards', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 10, burst: 1 });
    const jobs = Array.from({ length: 60 }, (_, index) =>
      w.schedule(1, { queue: 'mail', inMs: 3_000 + index * 10 }),
    ).flat();
    await w.run(10);
    const order = new Map(jobs.map(({ jobId }, index) => [jobId, index]));
    const started = w.published('mail').map(({ jobId }) => order.get(jobId) ?? -1);
    const late = started.slice(20).filter((place, index) => Math.abs(place - (index + 20)) > 16);
    assert.deepEqual(late, [], String(started));
  });

  it('goes on after its leases did not stand for a moment, though nobody else had the shards', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 20, burst: 1 });
    w.schedule(40, { queue: 'mail', inMs: 500, together: 1 });
    await w.run(1);
    const shards = [...w.owned];
    w.owned.clear();
    await w.run(1);
    for (const shard of shards) w.owned.add(shard);
    await w.run(8);
    assert.equal(new Set(ids(w.published('mail'))).size, 40);
  });

  it('grows to its full height after a resume', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 100, rampS: 20, burst: 1, pause: { at: w.now, reason: null, until: null } });
    w.schedule(3_000, { queue: 'mail', inMs: 100 });
    await w.run(2);
    await w.configure('mail', { pause: null, resumedAt: w.now });
    const resumedMs = 2 * SECOND_MS;
    await w.run(25);
    const at = w.published('mail').map(({ atMs }) => atMs - resumedMs);
    const between = (from: number, to: number): number => at.filter((ms) => ms >= from && ms < to).length;
    assert.ok(between(0, 2_000) <= 30, String(between(0, 2_000)));
    assert.ok(Math.abs(between(10_000, 11_000) - 52) <= 10, String(between(10_000, 11_000)));
    assert.ok(Math.abs(between(22_000, 23_000) - 100) <= 15, String(between(22_000, 23_000)));
  });

  it('lets a high job go before the low ones that wait, and does not forget those', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 10, burst: 1 });
    w.schedule(500, { queue: 'mail', priority: 'low' });
    await w.run(5);
    const before = w.published('mail').length;
    const high = w.schedule(30, { queue: 'mail', priority: 'high', together: 1 });
    await w.run(4);
    const later = w.published('mail').slice(0);
    const started = later.filter(({ atMs }) => atMs >= 5_000);
    const ofHigh = started.filter(({ jobId }) => high.some((job) => job.jobId === jobId)).length;
    assert.ok(ofHigh >= 30, `${ofHigh} high of ${started.length}, ${before} before`);
    assert.ok(started.length - ofHigh >= 3, 'low starves');
  });
});

describe('a queue that nobody works', () => {
  it('lets no high job wait behind a flood of low ones that the store takes long to hold', async () => {
    const w = await world({
      strikes: ({ method }) => (method === 'held.write' ? { kind: 'slow', afterMs: 5 * SECOND_MS } : undefined),
    });
    await w.configure('mail', { ratePerS: 10 });
    w.schedule(FLOOD, { queue: 'mail', priority: 'low', inMs: 500 });
    const high = [600, 1_600, 2_600].flatMap((inMs) => w.schedule(2, { queue: 'mail', priority: 'high', inMs }));
    await w.run(4);
    for (const { jobId, runAt } of high) {
      const published = w.published('mail').find((each) => each.jobId === jobId);
      const lagMs = (published?.atMs ?? Infinity) - (runAt - FAKE_START);
      assert.ok(lagMs <= 300, `${lagMs} ms late`);
    }
  });

  it('has no more waiting in the stream than its workers are to start at once when they come back', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 20, burst: 5 });
    w.worked.clear();
    w.schedule(1_000, { queue: 'mail', inMs: 500 });
    await w.run(20);
    assert.ok(w.unclaimed('mail') >= 60 && w.unclaimed('mail') <= 66, String(w.unclaimed('mail')));
    w.worked.add('mail');
    await w.run(10);
    const inTenSeconds = w.count('mail', JobStatus.succeeded) - 66;
    assert.ok(inTenSeconds >= 180 && inTenSeconds <= 225, String(inTenSeconds));
  });

  it('has no more waiting in the stream than was set', async () => {
    const w = await world();
    await w.configure('mail', { readyMax: 30 });
    const jobs = w.schedule(300, { queue: 'mail', inMs: 500 });
    await w.run(10);
    assert.ok(w.unclaimed('mail') >= 30 && w.unclaimed('mail') <= 40, String(w.unclaimed('mail')));
    w.worked.add('mail');
    await w.run(10);
    assert.deepEqual(ids(w.published('mail')), ids(jobs));
  });
});

describe('a queue without settings', () => {
  it('has no more waiting in the stream than workers need at hand', async () => {
    const w = await world();
    const flood = w.schedule(READY_MAX_DEFAULT + 5_000, { queue: 'mail', inMs: 500 });
    await w.run(10);
    const waiting = w.unclaimed('mail');
    assert.ok(waiting >= READY_MAX_DEFAULT && waiting < READY_MAX_DEFAULT + MOVING_ROWS_MAX, String(waiting));
    w.worked.add('mail');
    await w.run(10);
    assert.equal(w.unclaimed('mail'), 0);
    assert.equal(w.count('mail', JobStatus.succeeded), flood.length);
  });
});

describe('a queue whose stream is full', () => {
  it('holds what the stream has no room for, keeps little, and goes on as it drains', async () => {
    const w = await world({ perSubject: 100 });
    // The first of them find out that there is no room before anybody knows.
    w.schedule(500, { queue: 'flood', inMs: 500 });
    await w.run(5);
    w.schedule(500, { queue: 'flood', inMs: 500 });
    await w.run(5);
    assert.ok(w.count('flood', JobStatus.scheduled) >= 500, String(w.count('flood', JobStatus.scheduled)));
    const rounds = w.core.stores.calls.filter(({ method }) => method === 'cohorts.apply').length;
    await w.run(30);
    assert.equal(w.core.stores.calls.filter(({ method }) => method === 'cohorts.apply').length, rounds);
    let worked = 0;
    for (let passes = 0; passes < 60 && worked < 1_000; passes += 1) {
      worked += w.work('flood');
      await w.run(2);
    }
    assert.equal(worked, 1_000);
    await w.run(15);
    for (const cursor of cursorsOf(w)) assert.ok(cursor > w.now - MINUTE_MS / 4);
  });

  it('moves the jobs of other queues on meanwhile', async () => {
    const w = await world({ perSubject: 100 });
    w.schedule(8_000, { queue: 'flood', inMs: 500 });
    await w.run(5);
    w.schedule(50, { queue: 'calm', inMs: 500 });
    await w.run(3);
    assert.equal(w.count('calm', JobStatus.enqueued), 50);
    assert.equal(w.work('calm'), 50);
  });
});

describe('held rows', () => {
  it('are taken over by the next owner from where they stand', async () => {
    const w = await world();
    await w.configure('mail', { ratePerS: 20, burst: 1 });
    const jobs = w.schedule(400, { queue: 'mail', inMs: 100 });
    await w.run(12);
    await w.crash();
    await w.run(12);
    const started = w.published('mail');
    assert.deepEqual(new Set(ids(started)), new Set(ids(jobs)));
    // Those before the crash that were published after the last save are published again, which is harmless.
    assert.ok(started.length <= 400 + 6 * 20, String(started.length));
    assert.equal(w.count('mail', JobStatus.succeeded), 400);
  });

  it('make no other queue wait after a takeover, nor is more read of them at once than there is room for', async () => {
    let [reading, most] = [0, 0];
    const w: DispatchWorld = await world({
      strikes: ({ method, args }) => {
        if (method !== 'jobs.read') return undefined;
        const { length } = args[0] as readonly string[];
        reading += length;
        most = Math.max(most, reading);
        w.core.clock.after(SECOND_MS, () => (reading -= length));
        return { kind: 'slow', afterMs: SECOND_MS };
      },
    });
    await w.configure('flood', { ratePerS: 10 });
    w.schedule(FLOOD, { queue: 'flood', inMs: -10 * SECOND_MS });
    w.schedule(FLOOD, { queue: 'recent_flood', inMs: -3 * SECOND_MS });
    await w.configure('recent_flood', { pause: { at: w.now, reason: null, until: null } });
    await w.crash();
    const calm = [600, 1_600, 2_600].flatMap((inMs) => w.schedule(20, { queue: 'calm', inMs, together: 1 }));
    await w.run(5);
    assert.deepEqual(ids(w.published('calm')), ids(calm));
    for (const { jobId, atMs } of w.published('calm')) {
      const lagMs = atMs - (calm.find((job) => job.jobId === jobId)!.runAt - FAKE_START);
      // There is no room for hints: the next read finds them.
      assert.ok(lagMs <= SECOND_MS, `${lagMs} ms late`);
    }
    // Late ones, recent ones that may lack their message, and of held rows as many as their queue has turns for within 2 s.
    assert.ok(most > SIFTING_MAX && most <= SIFTING_MAX + HOLDING_MAX + 2 * 10, `${most} jobs read at once`);
  });

  it('are not made of a job that may be enqueued without a message: it gets one', async () => {
    const w = await world();
    await w.configure('mail', { pause: { at: w.now, reason: null, until: null } });
    // The owner before enqueued it and died.
    const [job] = w.schedule(1, { queue: 'mail', inMs: -3 * SECOND_MS });
    w.core.stores.rows.set(job!.jobId, { ...job!, status: JobStatus.enqueued, enqueuedAt: w.now });
    await w.crash();
    await w.run(2);
    assert.deepEqual(ids(w.published('mail')), [job!.jobId]);
    assert.equal(w.held('mail'), 0);
  });

  it('are not passed when a row lands behind the place that was read', async () => {
    const w = await world({ shards: 1 });
    await w.configure('mail', { ratePerS: 5, burst: 1 });
    const first = w.schedule(40, { queue: 'mail', inMs: 500 });
    await w.run(4);
    // Hold it by hand: an older job, as a due row that landed late.
    const late = w.schedule(1, { queue: 'mail', inMs: -3_000 });
    await w.run(10);
    assert.deepEqual(new Set(ids(w.published('mail'))), new Set(ids([...first, ...late])));
  });

  it('go whole, an hour after the other, when all are settled and the hour is closed', async () => {
    const w = await world();
    await w.configure('mail', { pause: { at: w.now, reason: null, until: null } });
    w.schedule(200, { queue: 'mail', inMs: 500 });
    await w.run(5);
    await w.configure('mail', { pause: null, resumedAt: w.now });
    await w.run(5);
    assert.equal(w.work('mail'), 200);
    assert.equal(w.held('mail'), 200, 'rows are taken out one by one');
    w.core.clock.step({ wallMs: HOUR_MS, monotonicMs: HOUR_MS });
    await w.run(70);
    assert.equal(w.held('mail'), 200, 'an hour goes before it is closed');
    w.core.clock.step({ wallMs: 10 * MINUTE_MS, monotonicMs: 10 * MINUTE_MS });
    await w.run(150);
    assert.equal(w.held('mail'), 0);
    assert.deepEqual([...w.core.stores.heldHours.values()], []);
  });

  it('stay when a last look finds a job that still waits', async () => {
    const w = await world({ shards: 1 });
    await w.configure('mail', { pause: { at: w.now, reason: null, until: null } });
    w.schedule(3, { queue: 'mail', inMs: 500 });
    await w.run(5);
    await w.configure('mail', { pause: null, resumedAt: w.now });
    await w.run(5);
    // As if it had never been given out.
    const [job] = w.published('mail');
    const row = w.core.stores.rows.get(job?.jobId ?? '');
    assert.ok(row);
    w.work('mail');
    w.core.stores.rows.set(row.jobId, { ...row, status: JobStatus.scheduled, enqueuedAt: null });
    w.core.clock.step({ wallMs: 2 * HOUR_MS, monotonicMs: 2 * HOUR_MS });
    await w.run(150);
    assert.deepEqual(ids(w.published('mail').slice(3)), [row.jobId]);
    w.work('mail');
    await w.run(150);
    assert.equal(w.held('mail'), 0);
  });

  it('are written before the due row is passed, and again when the store did not take them', async () => {
    const w = await world({ shards: 1 });
    await w.configure('mail', { pause: { at: w.now, reason: null, until: null } });
    w.core.stores.failNext('held.write', { kind: 'request_lost' });
    w.core.stores.failNext('held.write', { kind: 'unavailable' });
    w.schedule(10, { queue: 'mail', inMs: 500 });
    await w.run(1);
    assert.equal(w.held('mail'), 0);
    await w.run(6);
    assert.equal(w.held('mail'), 10);
  });
});

describe('queues that have more due than can go at once', () => {
  it('hold nothing that has its turn within ten seconds', async () => {
    const w = await world({
      strikes: ({ method }) => (method === 'cohorts.apply' ? { kind: 'slow', afterMs: 400 } : undefined),
    });
    const jobs = w.schedule(4_000, { queue: 'burst' });
    await w.run(5.5);
    assert.ok(w.count('burst', JobStatus.enqueued) < jobs.length, 'it takes longer than that');
    await w.run(4);
    assert.equal(w.count('burst', JobStatus.enqueued), jobs.length);
    assert.equal(w.held('burst'), 0);
  });

  it('take turns: a few jobs of one do not wait behind a flood of another', async () => {
    const w = await world({
      strikes: ({ method }) => (method === 'cohorts.apply' ? { kind: 'slow', afterMs: 50 } : undefined),
    });
    await w.configure('flood', { readyMax: 2 * FLOOD });
    w.schedule(FLOOD, { queue: 'flood', inMs: 100 });
    await w.run(1);
    const calm = w.schedule(20, { queue: 'calm', together: 1 });
    await w.run(2);
    assert.deepEqual(ids(w.published('calm')), ids(calm));
    for (const { atMs } of w.published('calm')) assert.ok(atMs <= 2_500, `${atMs} ms`);
    await w.run(10);
    assert.equal(w.count('flood', JobStatus.enqueued), FLOOD);
  });
});
