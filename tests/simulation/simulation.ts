// One seed's run: first everything goes wrong and the checkers watch every step, then all heals and everything that was
// promised must come about within a stated time.

import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { faultPhaseMs, type EventName, type FaultName } from './chaos.ts';
import type { Chance } from './chance.ts';
import { sleepLong } from './machine.ts';
import { SERVICES } from './processes.ts';
import { settledUntil } from './settled-until.ts';
import type { Violation } from './violation.ts';
import { BULK_ACTIONS } from './bulk-workload.ts';
import { openQueues, QUEUE_ACTIONS } from './queue-workload.ts';
import { SCHEDULE_ACTIONS } from './schedule-workload.ts';
import { type Action, ACTIONS, create, workload } from './workload.ts';
import { WORKERS } from './workers.ts';
import { type Plant, SHARDS, type Slot, World } from './world.ts';

export interface RunOptions {
  readonly seed: number;
  readonly plant?: Plant | undefined;
  /** Called with every line of the trace. */
  readonly onLine?: ((line: string) => void) | undefined;
  /** Of errors; none by default, for faults are thrown by the thousand. */
  readonly stackLines?: number;
}

export interface RunResult {
  readonly seed: number;
  readonly steps: number;
  readonly hash: string;
  readonly jobs: number;
  readonly attempts: number;
  readonly simulatedMs: number;
  readonly faults: Readonly<Partial<Record<FaultName, number>>>;
  readonly violation: Violation | null;
  /** Of a failure: the lines of the trace that tell of it. */
  readonly excerpt: readonly string[];
}

const CALM_BEFORE_MS = 5 * SECOND_MS;
/** All that is accepted is over, and recorded, within this after the last fault. */
const CONVERGE_MAX_MS = 15 * MINUTE_MS;
const LOOK_EVERY_MS = 2 * SECOND_MS;
/** After the last fault ownership, clocks and connections are in order within this. */
const SETTLE_MS = 30 * SECOND_MS;
const CANARIES = 6;
/** Promise 2: how late a job may start under normal load. */
const START_LATE_MAX_MS = 10 * SECOND_MS;
/** What one idle process may have under way. */
const IDLE_CALLS_MAX = 60;
const BUSY_CALLS_MAX = 3_000;

export async function simulate(options: RunOptions): Promise<RunResult> {
  Error.stackTraceLimit = options.stackLines ?? 0;
  const world = new World(options);
  const unwatch = watchRejections(world);
  try {
    for (const kind of [...SERVICES, ...WORKERS]) world.addSlots(kind);
    await runFaults(world);
    if (world.violation === null) await heal(world);
    if (world.violation === null) await canaries(world);
  } finally {
    unwatch();
  }
  const { trace, ledger, chaos, violation, seed } = world;
  return {
    seed,
    steps: trace.steps,
    hash: trace.hash(),
    jobs: ledger.accepted.size,
    attempts: ledger.claims,
    simulatedMs: Math.round(world.clock.now() - world.startedAt),
    faults: Object.fromEntries(chaos.counts),
    violation,
    excerpt: violation === null ? [] : trace.excerpt(violation.subject),
  };
}

/** A healthy cluster under the usual work, in which only what the scenario does goes wrong; in the end all must come about. */
export async function runScenario(
  options: RunOptions,
  script: (world: World, advance: (ms: number) => Promise<void>) => Promise<void>,
): Promise<World> {
  Error.stackTraceLimit = options.stackLines ?? 0;
  const world = new World(options);
  const unwatch = watchRejections(world);
  try {
    for (const kind of [...SERVICES, ...WORKERS]) world.addSlots(kind);
    void workload(world, [...ACTIONS, ...SCHEDULE_ACTIONS]);
    await script(world, (ms) => advance(world, ms));
    world.isOpen = false;
    if (world.violation === null) await heal(world);
    if (world.violation === null) await canaries(world);
  } finally {
    unwatch();
  }
  return world;
}

async function runFaults(world: World): Promise<void> {
  const { chaos, clock } = world;
  void workload(world, actionsOf(world));
  await advance(world, CALM_BEFORE_MS);
  chaos.start();
  void drawEvents(world);
  const until = clock.now() + faultPhaseMs(world.chance('length'));
  while (clock.now() < until && world.violation === null) {
    await advance(world, LOOK_EVERY_MS);
    checkBounds(world, BUSY_CALLS_MAX);
  }
  world.isOpen = false;
}

/** Some seeds are about jobs alone, others also about schedules, queues that are held back, bulk operations, or several of them. */
function actionsOf(world: World): readonly Action[] {
  const chance = world.chance('actions');
  const schedules = chance.happens(0.5) ? SCHEDULE_ACTIONS : [];
  const queues = chance.happens(0.4) ? QUEUE_ACTIONS : [];
  return [...ACTIONS, ...schedules, ...queues, ...(chance.happens(0.3) ? BULK_ACTIONS : [])];
}

/** Runs the world on until the time is over or a promise is broken. */
async function advance(world: World, ms: number): Promise<void> {
  await settledUntil(world.clock, ms, () => world.violation !== null);
}

async function heal(world: World): Promise<void> {
  const { chaos, clock, ledger, trace } = world;
  trace.add('-', 'all heals');
  chaos.heal();
  // What stands still goes on in its own time: a round that lands when all else is long in order is the hardest to survive.
  while (world.violation === null && world.slots.some(({ machine }) => machine.isPaused)) {
    await openQueues(world);
    await advance(world, LOOK_EVERY_MS);
  }
  for (const slot of world.slots) {
    slot.machine.aheadMs = 0;
    if (!slot.link.connected()) slot.link.reconnect();
  }
  const healedAt = clock.now();
  const until = healedAt + CONVERGE_MAX_MS;
  while (world.violation === null) {
    await openQueues(world);
    await advance(world, LOOK_EVERY_MS);
    const open = ledger.open(healedAt);
    const unrecorded = ledger.unrecorded(healedAt);
    const [operation] = ledger.openOperations();
    if (open.length + unrecorded.length === 0 && operation === undefined) return;
    if (clock.now() < until) continue;
    if (operation !== undefined) {
      world.report({ rule: 'an operation that never ends', detail: operation, subject: operation });
    }
    const job = open[0] ?? unrecorded[0];
    const jobId = job?.jobId ?? null;
    world.report({
      rule: open.length > 0 ? 'a job that never ends' : 'an end that no audit tells',
      detail: `${CONVERGE_MAX_MS / MINUTE_MS} min after the last fault: ${open.length} jobs open, ${unrecorded.length} unrecorded, such as ${jobId ?? ''} (${job?.status ?? ''})`,
      subject: jobId,
    });
  }
}

/** In a healthy cluster jobs start on time. */
async function canaries(world: World): Promise<void> {
  const { clock, ledger, stores, trace } = world;
  await advance(world, SETTLE_MS);
  trace.add('-', 'canaries');
  const known = new Set(ledger.accepted);
  const chance = world.chance('canaries');
  for (let index = 0; index < CANARIES; index += 1) {
    const delayMs = index % 2 === 0 ? 0 : chance.whole(0, 5 * SECOND_MS);
    // With its jitter a job may be due behind the time at which it expires: it never starts then.
    void create({ world, chance }, { delayMs }, { expiresAt: null });
  }
  await advance(world, 5 * SECOND_MS + 2 * START_LATE_MAX_MS);
  // A client that goes on trying under its key may still be answered, too.
  const posted = [...ledger.accepted].filter((jobId) => !known.has(jobId) && ledger.isOfOneCall(jobId));
  if (posted.length !== CANARIES) {
    world.report({ rule: 'a healthy api refuses', detail: `${posted.length} of ${CANARIES} accepted`, subject: null });
  }
  for (const jobId of posted) {
    const row = stores.rows.get(jobId);
    const startedAt = row?.starts.get(1)?.startedAt ?? clock.now();
    const lateMs = startedAt - (row?.runAt ?? 0);
    if (lateMs <= START_LATE_MAX_MS) continue;
    const detail = `${jobId} is ${row?.status ?? 'missing'}, ${Math.round(lateMs)} ms after its time`;
    world.report({ rule: 'a late start in a healthy cluster', detail, subject: jobId });
  }
  const [standing] = world.schedules.standing(START_LATE_MAX_MS);
  if (standing !== undefined) {
    const detail = `${standing.scheduleId}: its next slot, ${standing.nextRunAt ?? 0}, has passed`;
    world.report({ rule: 'a schedule that stands still', detail, subject: standing.scheduleId });
  }
  checkBounds(world, IDLE_CALLS_MAX);
}

/** What waits in a process is bounded, and goes when its work is done. */
function checkBounds(world: World, most: number): void {
  for (const { machine } of world.slots) {
    const under = machine.calls + machine.timers;
    if (under <= most) continue;
    const detail = `${machine.name} has ${machine.calls} calls and ${machine.timers} timers under way`;
    world.report({ rule: 'something grows without bound', detail, subject: null });
  }
}

async function drawEvents(world: World): Promise<void> {
  const chance = world.chance('events');
  for (;;) {
    const next = world.chaos.nextEvent();
    if (next === null) return;
    await world.clock.sleep(next.inMs);
    if (!world.chaos.isOn) return;
    EVENT_EFFECTS[next.name](world, chance);
  }
}

const EVENT_EFFECTS: Readonly<Record<EventName, (world: World, chance: Chance) => void>> = {
  crash: onProcess('crash', ({ machine }) => machine.crash()),
  stop: onProcess('stop', (slot) => void stopOrderly(slot)),
  stall: onProcess('stall', ({ machine }, world) => machine.pause(world.chaos.pauseMs(), 'stalled')),
  suspend: onProcess('suspend', ({ machine }, world) => machine.pause(world.chaos.pauseMs(), 'suspended')),
  clock_step: onProcess('clock_step', ({ machine }, _, chance) => {
    machine.aheadMs += chance.pick([-1, 1]) * chance.pick([2 * SECOND_MS, 30 * SECOND_MS, 10 * MINUTE_MS]);
  }),
  clock_skew: onProcess('clock_skew', ({ machine }, _, chance) => {
    machine.aheadMs = chance.between(-4 * SECOND_MS, 4 * SECOND_MS);
  }),
  cut_from_cassandra: onProcess('cut_from_cassandra', ({ machine }, { chaos }, chance) => {
    chaos.cut(machine, 'cassandra', lengthMs(chance));
  }),
  cut_from_nats: onProcess('cut_from_nats', (slot, world, chance) => {
    const ms = lengthMs(chance);
    world.chaos.cut(slot.machine, 'nats', ms);
    cutLink(world, slot, ms);
  }),
  nats_away: (world, chance) => {
    world.chaos.note('nats_away', '');
    const ms = lengthMs(chance);
    world.chaos.takeAway('nats', ms);
    for (const slot of world.slots) cutLink(world, slot, ms);
  },
  cassandra_away: (world, chance) => {
    world.chaos.note('cassandra_away', '');
    world.chaos.takeAway('cassandra', lengthMs(chance));
  },
  range_away: (world, chance) => {
    world.chaos.note('range_away', '');
    world.chaos.takeRangeAway(lengthMs(chance));
  },
  timers_away: (world, chance) => {
    const rows = { table: chance.pick(['due', 'deadlines'] as const), shard: chance.whole(0, SHARDS - 1) };
    world.chaos.note('timers_away', `${rows.table} of shard ${rows.shard}`);
    world.chaos.takeTimersAway(rows, lengthMs(chance));
  },
  ready_stream_lost: (world) => {
    world.chaos.note('ready_stream_lost', '');
    world.bus.loseMessages();
  },
  ready_messages_lost: (world, chance) => {
    world.chaos.note('ready_messages_lost', '');
    world.bus.loseLast(chance.whole(1, 10));
  },
  lease_bucket_lost: (world) => {
    world.chaos.note('lease_bucket_lost', '');
    world.bus.loseKeys();
  },
  storm: (world, chance) => {
    world.chaos.note('storm', '');
    world.chaos.storm(lengthMs(chance));
  },
};

type Effect = (slot: Slot, world: World, chance: Chance) => void;

function onProcess(name: EventName, effect: Effect): (world: World, chance: Chance) => void {
  return (world, chance) => {
    const slot = chance.pick(world.slots);
    if (slot.machine.isDead) return;
    world.chaos.note(name, slot.machine.name);
    effect(slot, world, chance);
  };
}

async function stopOrderly({ machine, running }: Slot): Promise<void> {
  // A process that stands still hears of no signal.
  await machine.gate();
  await running?.stop();
  machine.crash();
}

function cutLink(world: World, { link }: Slot, ms: number): void {
  if (!link.connected()) return;
  link.disconnect();
  void sleepLong(world.clock, ms).then(() => {
    if (!link.connected()) link.reconnect();
  });
}

function lengthMs(chance: Chance): EpochMs {
  return chance.happens(0.7)
    ? chance.between(SECOND_MS, 10 * SECOND_MS)
    : chance.between(10 * SECOND_MS, 60 * SECOND_MS);
}

/** An error that nobody catches ends a process at once. */
function watchRejections(world: World): () => void {
  const onRejection = (reason: unknown): void => {
    const text = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    world.report({ rule: 'an error that nobody catches', detail: text, subject: null });
  };
  process.on('unhandledRejection', onRejection);
  return () => void process.off('unhandledRejection', onRejection);
}
