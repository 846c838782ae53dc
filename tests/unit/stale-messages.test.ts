// Jobs that stop waiting without a claim leave their messages in the ready stream; they are taken out, and no others are.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cohortOf } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import {
  STALE_MESSAGE_AFTER_MS,
  STALE_NOTES_MAX,
  STALE_PAGE_MESSAGES,
  STALE_RUN_MAX_MS,
} from '../../services/core/domain/limits.ts';
import { msBetween } from '../../services/core/domain/time.ts';
import { CancelReason } from '../../services/core/moves/cancel-waiting.ts';
import { StaleMessages } from '../../services/core/moves/stale-messages.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryBus, type BusCall, type BusFault } from '../support/memory-bus.ts';
import { MemoryStores, type StoreCall } from '../support/memory-store.ts';
import { silentLog, silentTelemetry } from '../support/silent-telemetry.ts';

class World {
  readonly clock = new FakeClock();
  readonly calls: BusCall['method'][] = [];
  strikes: (call: BusCall) => BusFault | undefined = () => undefined;
  onRead: (call: StoreCall) => void = () => undefined;
  readonly bus = new MemoryBus({
    clock: this.clock,
    perSubject: 1_000_000,
    plan: (call) => {
      this.calls.push(call.method);
      return this.strikes(call);
    },
  });
  readonly stores = new MemoryStores({ clock: this.clock, onApplied: (call) => this.onRead(call) });
  readonly connection = this.bus.connect();
  readonly stale = new StaleMessages({
    queue: this.connection.queue,
    reader: this.stores.jobs,
    clock: this.clock,
    telemetry: silentTelemetry,
    log: silentLog,
  });

  /** A job that waits for a claim, and its message. */
  enqueued(overrides: Partial<JobRow> = {}): JobRow {
    const job = jobRow(newCohort(), 0, { status: JobStatus.enqueued, enqueuedAt: this.clock.now(), ...overrides });
    this.stores.rows.set(job.jobId, job);
    this.publish(job);
    return job;
  }

  many(count: number, overrides: Partial<JobRow> = {}): readonly JobRow[] {
    return Array.from({ length: count }, () => this.enqueued(overrides));
  }

  publish({ jobId, attempt, runAt, queue, priority }: JobRow): void {
    this.bus.store({ jobId, attempt: attempt + 1, runAt, queue, priority });
  }

  become(job: JobRow, status: JobStatus): void {
    this.stores.rows.set(job.jobId, { ...job, status });
  }

  /** It stops waiting, and that is told. */
  cancel(job: JobRow): void {
    this.become(job, JobStatus.cancelled);
    this.stale.note(job);
  }

  /** What stands in the stream. */
  messages(queue = 'mail'): readonly string[] {
    return (this.bus.subjects.get(`ready.${queue}.normal`) ?? []).map(({ message }) => message.jobId);
  }

  async ripen(): Promise<void> {
    await this.clock.advance(STALE_MESSAGE_AFTER_MS);
  }

  run(): Promise<number> {
    return this.clock.until(this.stale.runOnce());
  }
}

function idsOf(jobs: readonly JobRow[]): readonly string[] {
  return jobs.map(({ jobId }) => jobId);
}

describe('the message of a job that stopped waiting without a claim', () => {
  it('is removed, all of them where it was published more than once, and no other', async () => {
    const world = new World();
    const [first, second, third] = [world.enqueued(), world.enqueued(), world.enqueued()];
    world.publish(second);
    // Nobody told of this one.
    world.become(third, JobStatus.cancelled);
    world.cancel(second);
    await world.ripen();
    assert.equal(await world.run(), 2);
    assert.deepEqual(world.messages(), idsOf([first, third]));
    world.calls.length = 0;
    assert.equal(await world.run(), 0);
    assert.deepEqual(world.calls, [], 'what is done is forgotten');
  });

  it('is looked for once it must have reached the stream', async () => {
    const world = new World();
    const job = world.enqueued();
    world.bus.removeMessages([1]);
    world.cancel(job);
    assert.equal(await world.run(), 0);
    world.publish(job);
    await world.ripen();
    assert.equal(await world.run(), 1);
  });

  it('is looked for at once when the process ends', async () => {
    const world = new World();
    world.cancel(world.enqueued());
    assert.equal(await world.stale.runOnce(0), 1);
  });

  it('stays when the job waits, as it still does or does again', async () => {
    const world = new World();
    const [still, again] = [world.enqueued(), world.enqueued()];
    world.stale.note(still);
    world.cancel(again);
    world.become(again, JobStatus.enqueued);
    await world.ripen();
    assert.equal(await world.run(), 0);
    assert.deepEqual(world.messages(), idsOf([still, again]));
  });

  it('goes, and the one of the job enqueued again after the look at its state stays', async () => {
    const world = new World();
    const job = world.enqueued();
    world.cancel(job);
    await world.ripen();
    world.onRead = ({ method }) => {
      if (method !== 'jobs.readStates') return;
      world.become(job, JobStatus.enqueued);
      world.publish(job);
    };
    assert.equal(await world.run(), 1);
    assert.deepEqual(
      world.bus.subjects.get('ready.mail.normal')?.map(({ sequence }) => sequence),
      [2],
    );
  });

  it('is found where an earlier stay in the stream left it', async () => {
    const world = new World();
    const job = world.enqueued({ enqueuedAt: FAKE_START });
    world.stale.note(job);
    await world.clock.advance(1_000);
    world.cancel({ ...job, enqueuedAt: FAKE_START + 3_600_000 });
    await world.ripen();
    assert.equal(await world.run(), 1);
  });

  it('is remembered while NATS is away, or fails, and removed when it is back', async () => {
    const world = new World();
    world.cancel(world.enqueued());
    await world.ripen();
    world.connection.disconnect();
    assert.equal(await world.run(), 0);
    assert.deepEqual(world.calls, []);
    world.connection.reconnect();
    for (const lost of ['queue.incarnation', 'queue.readMessages', 'queue.removeMessages']) {
      world.strikes = ({ method }) => (method === lost ? { kind: 'request_lost' } : undefined);
      await assert.rejects(world.run());
      assert.equal(world.messages().length, 1);
    }
    world.strikes = () => undefined;
    assert.equal(await world.run(), 1);
  });

  it('is removed though the answer to its removal was lost', async () => {
    const world = new World();
    const jobs = [world.enqueued(), world.enqueued()];
    jobs.forEach((job) => world.cancel(job));
    await world.ripen();
    world.strikes = ({ method }) => (method === 'queue.removeMessages' ? { kind: 'answer_lost' } : undefined);
    await assert.rejects(world.run());
    world.strikes = () => undefined;
    await world.run();
    assert.deepEqual(world.messages(), []);
  });

  it('waits until its job can be read, which keeps no other waiting', async () => {
    const world = new World();
    const jobs = [world.enqueued(), world.enqueued()];
    jobs.forEach((job) => world.cancel(job));
    await world.ripen();
    world.stores.failNext('jobs.readStates', { kind: 'unavailable' });
    assert.equal(await world.run(), 1);
    assert.equal(world.messages().length, 1);
    await world.ripen();
    assert.equal(await world.run(), 1);
  });

  it('is not mistaken for another when the stream is made again in between', async () => {
    const world = new World();
    const job = world.enqueued();
    world.cancel(job);
    await world.ripen();
    let other: JobRow | undefined;
    world.onRead = ({ method }) => {
      if (method !== 'jobs.readStates' || other !== undefined) return;
      world.bus.loseMessages();
      other = world.enqueued();
    };
    assert.equal(await world.run(), 0);
    assert.equal(await world.run(), 0);
    assert.deepEqual(world.messages(), [other?.jobId]);
  });

  it('stays where more jobs stop waiting than a process remembers', async () => {
    const world = new World();
    const jobs = world.many(3);
    jobs.forEach((job) => world.cancel(job));
    const cohort = newCohort();
    for (let index = 0; index < STALE_NOTES_MAX - 2; index += 1) {
      world.stale.note({ jobId: `${cohort}_${index}`, queue: 'mail', priority: 'normal', enqueuedAt: FAKE_START });
    }
    await world.ripen();
    await world.run();
    assert.deepEqual(world.messages(), [jobs[0]?.jobId]);
  });
});

describe('the search for stale messages', () => {
  it('takes its share of a second and goes on from there, subject by subject in turns', async () => {
    const world = new World();
    const pages = 8;
    const jobs = world.many(pages * STALE_PAGE_MESSAGES);
    const others = world.many(3, { queue: 'other' });
    [...jobs.filter((_, index) => index % 2 === 0), ...others].forEach((job) => world.cancel(job));
    await world.ripen();
    const pageMs = STALE_RUN_MAX_MS / 2;
    world.strikes = ({ method }) => (method === 'queue.readMessages' ? { kind: 'slow', afterMs: pageMs } : undefined);
    const startedAt = world.clock.monotonic();
    const removed = await world.run();
    assert.ok(msBetween(startedAt, world.clock.monotonic()) <= STALE_RUN_MAX_MS + pageMs);
    assert.equal(removed, STALE_PAGE_MESSAGES / 2 + others.length, 'a page of the first, then the other');
    for (let runs = 0; runs < pages && world.messages().length > jobs.length / 2; runs += 1) await world.run();
    assert.equal(world.messages().length, jobs.length / 2);
    assert.ok(jobs.every((job, index) => index % 2 === 0 || world.messages()[(index - 1) / 2] === job.jobId));
  });

  it('reads nothing of what was stored long before the job was enqueued', async () => {
    const world = new World();
    world.many(5 * STALE_PAGE_MESSAGES);
    await world.clock.advance(60_000);
    world.cancel(world.enqueued());
    await world.ripen();
    world.calls.length = 0;
    assert.equal(await world.run(), 1);
    assert.equal(world.calls.filter((method) => method === 'queue.readMessages').length, 1);
  });

  it('reads the jobs of a cohort together', async () => {
    const world = new World();
    const cohort = newCohort();
    const jobs = [0, 1, 2].map((member) => world.enqueued(jobRow(cohort, member, { status: JobStatus.enqueued })));
    assert.equal(new Set(jobs.map(({ jobId }) => cohortOf(jobId))).size, 1);
    jobs.forEach((job) => world.cancel(job));
    await world.ripen();
    assert.equal(await world.run(), 3);
    assert.equal(world.stores.calls.filter(({ method }) => method === 'jobs.readStates').length, 1);
  });
});

describe('whoever takes a job out of the ready stream', () => {
  /** A job that waits for a claim, on all that the services stand on. */
  async function bench(strikes?: Parameters<typeof coreBench>[0]) {
    const core = coreBench(strikes);
    const job = jobRow(newCohort(), 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    const { jobId, runAt, queue, priority } = job;
    core.stores.rows.set(jobId, job);
    await core.parts.queue.publish([{ jobId, attempt: 1, runAt, queue, priority }]);
    const sweep = async (): Promise<number> => {
      await core.clock.advance(STALE_MESSAGE_AFTER_MS);
      return core.clock.until(core.parts.leftBehind.runOnce());
    };
    return { ...core, job, sweep };
  }

  it('by cancelling it leaves no message behind', async () => {
    const { parts, clock, job, sweep } = await bench();
    await clock.until(parts.canceller.cancel(job, CancelReason.byRequest));
    assert.equal(await sweep(), 1);
  });

  it('by taking it back leaves no message behind', async () => {
    const { parts, clock, job, sweep } = await bench();
    assert.equal((await clock.until(parts.unqueuer.unqueue(job))).kind, 'applied');
    assert.equal(await sweep(), 1);
  });

  it('and does not learn whether it did leaves none behind either', async () => {
    let done = 0;
    const { parts, clock, job, sweep, stores } = await bench({
      strikes: ({ method }) => {
        if (method === 'cohorts.apply') return (done += 1) === 1 ? { kind: 'answer_lost' } : { kind: 'request_lost' };
        return method === 'jobs.read' ? { kind: 'unavailable' } : undefined;
      },
    });
    const outcome = await clock.until(parts.canceller.cancel(job, CancelReason.byRequest));
    assert.equal(outcome?.kind, 'unknown');
    assert.equal(stores.rows.get(job.jobId)?.status, JobStatus.cancelled);
    assert.equal(await sweep(), 1);
  });
});
