// The calls of one process on their way to Cassandra and NATS: slow, lost, late, cut off, and each an await at which the
// process may stand still or die.

import type { Connections } from '../../services/core/foundation/foundation.ts';
import type { ClockSource } from '../../services/core/ports/clock-source.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { cohortOf } from '../../services/core/domain/ids.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { BusError } from '../../services/core/ports/ready-queue.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import type { MemoryBus, MemoryConnection } from '../support/memory-bus.ts';
import type { Stores } from '../../services/core/storage/stores.ts';
import type { MemoryStores } from '../support/memory-store.ts';
import { busFaultOf, type Chaos, type Passage, type TimerRows } from './chaos.ts';
import type { Machine } from './machine.ts';
import type { Pending } from './pending-fault.ts';
import type { Trace } from './trace.ts';

export interface WireParts {
  readonly machine: Machine;
  readonly chaos: Chaos;
  readonly trace: Trace;
  /** The true time, in which requests travel also when their sender has died. */
  readonly clock: Clock;
  readonly stores: MemoryStores;
  readonly bus: MemoryBus;
  readonly pending: Pending;
  /** The servers' own clocks. */
  readonly servers: readonly ClockSource[];
}

type Method = (...args: unknown[]) => unknown;

/** A request that nobody answers is given up after this. */
const REQUEST_TIMEOUT_MS = 2 * SECOND_MS;
/** What answers within the process. */
const LOCAL: readonly string[] = ['connected', 'send'];
const CALLING_BACK: readonly string[] = ['listen', 'watch'];
const PAGED: readonly string[] = [
  'timers.readDue',
  'timers.readDeadlines',
  'history.readDeadLetters',
  'scheduleRuns.read',
  'operations.readList',
];
/** A read that fails has written nothing. */
const READ = /\.(read|load|find|last|hours|standing|count|positions)/;

/** The connections of one process. */
export function wiredConnections(parts: WireParts): { connections: Connections; link: MemoryConnection } {
  const { bus, machine, servers } = parts;
  const link = bus.connect();
  const nats = <Port extends object>(name: string, port: Port): Port => wired(parts, name, port, busCall);
  const stores = wiredStores(parts);
  const connections: Connections = {
    stores,
    queueBook: new QueueBook({ store: stores.queues, clock: machine.clock }),
    queue: nats('queue', link.queue),
    hints: nats('hints', link.hints),
    heldReports: nats('heldReports', link.heldReports),
    leases: nats('leases', link.leases),
    clockSources: () => servers.map((server) => wired(parts, server.name, server, askCall)),
    onBusConnected: (callback) => link.onConnected(() => machine.enter(callback)),
  };
  return { connections, link };
}

/** Every store there is, however many. */
function wiredStores(parts: WireParts): Stores {
  const stores: Stores = parts.stores;
  return new Proxy(stores, {
    get: (target, key) => wired(parts, String(key), Reflect.get(target, key) as object, storeCall),
  });
}

type Carrier = (parts: WireParts, name: string, args: readonly unknown[], send: () => unknown) => Promise<unknown>;

/** The port as the process sees it. */
function wired<Port extends object>(parts: WireParts, portName: string, port: Port, carry: Carrier): Port {
  return new Proxy(port, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== 'function' || typeof key !== 'string') return member;
      const method = (member as Method).bind(target);
      if (LOCAL.includes(key)) return method;
      if (CALLING_BACK.includes(key)) return callingBack(parts, method);
      const name = `${portName}.${key}`;
      if (PAGED.includes(name)) {
        return (...args: unknown[]) => pages(parts, { name, args, open: () => method(...args) as Pages }, carry);
      }
      return (...args: unknown[]) =>
        counted(
          parts.machine,
          carry(parts, name, args, () => method(...args)),
        );
    },
  });
}

type Pages = AsyncIterable<unknown>;

async function* pages(
  parts: WireParts,
  read: { readonly name: string; readonly args: readonly unknown[]; readonly open: () => Pages },
  carry: Carrier,
): AsyncGenerator {
  const iterator = read.open()[Symbol.asyncIterator]();
  for (;;) {
    const next = () => iterator.next();
    const page = (await counted(parts.machine, carry(parts, read.name, read.args, next))) as IteratorResult<unknown>;
    if (page.done === true) return;
    yield page.value;
  }
}

/** What the server tells by itself: the last argument is the process's listener. */
function callingBack({ machine }: WireParts, method: Method): Method {
  return (...args) => {
    const listener = args.pop() as Method;
    return method(...args, (...told: unknown[]) => machine.enter(() => listener(...told)));
  };
}

async function counted(machine: Machine, call: Promise<unknown>): Promise<unknown> {
  machine.calls += 1;
  try {
    return await call;
  } finally {
    machine.calls -= 1;
  }
}

type Answer = { readonly value: unknown } | { readonly error: unknown };

async function storeCall(parts: WireParts, name: string, args: readonly unknown[], send: () => unknown) {
  const { chaos, machine, clock, pending, trace } = parts;
  return travel(parts, name, args, async (passage) => {
    const isRead = READ.test(name) && name !== 'settings.readOrSeed';
    if (chaos.isCut(machine, 'cassandra')) {
      await clock.sleep(REQUEST_TIMEOUT_MS);
      return { error: new StoreError(isRead ? 'unavailable' : 'unknown', `${name}: cut off`) };
    }
    if (isRangeAway(chaos, name, args) || areTimersAway(chaos, name, args))
      return { error: new StoreError('unavailable', `${name}: too few replicas`) };
    pending.store = passage.fault ?? undefined;
    const answer = await answerOf(send());
    if (!chaos.isCut(machine, 'cassandra')) return answer;
    trace.add(machine.name, `${name}: the answer is cut off`);
    return { error: new StoreError(isRead ? 'unavailable' : 'unknown', `${name}: cut off before the answer`) };
  });
}

async function busCall(parts: WireParts, name: string, args: readonly unknown[], send: () => unknown) {
  const { chaos, machine, pending } = parts;
  return travel(parts, name, args, async (passage) => {
    const [messages] = args;
    const failed = (): Answer =>
      name === 'queue.publish' && Array.isArray(messages)
        ? { value: messages.map(() => 'failed') }
        : { error: new BusError(`${name}: cut off`) };
    if (chaos.isCut(machine, 'nats')) return failed();
    pending.bus = busFaultOf(passage.fault);
    const answer = await answerOf(send());
    return chaos.isCut(machine, 'nats') ? failed() : answer;
  });
}

async function askCall(parts: WireParts, name: string, args: readonly unknown[], send: () => unknown) {
  const { chaos, machine } = parts;
  const server = name.startsWith('nats') ? 'nats' : 'cassandra';
  return travel(parts, name, args, async () =>
    chaos.isCut(machine, server) ? { error: new Error(`${name}: cut off`) } : answerOf(send()),
  );
}

async function travel(
  parts: WireParts,
  name: string,
  args: readonly unknown[],
  carry: (passage: Passage) => Promise<Answer>,
): Promise<unknown> {
  const { machine, chaos, clock, trace } = parts;
  await machine.gate();
  const passage = chaos.passage(name);
  if (passage.before !== null) {
    trace.add(machine.name, `about to ${name}`, () => textOf(args));
    chaos.strike(machine, passage.before);
    await machine.gate();
  }
  trace.add(machine.name, name, () => textOf(args));
  await clock.sleep(passage.outMs);
  const answer = await carry(passage);
  await clock.sleep(passage.backMs);
  await machine.gate();
  if (passage.after !== null) {
    trace.add(machine.name, `about to learn the answer to ${name}`, () => textOf(args));
    chaos.strike(machine, passage.after);
    await machine.gate();
  }
  if ('error' in answer) throw answer.error;
  return answer.value;
}

async function answerOf(sent: unknown): Promise<Answer> {
  try {
    return { value: await sent };
  } catch (error) {
    return { error };
  }
}

function isRangeAway(chaos: Chaos, name: string, args: readonly unknown[]): boolean {
  const [first] = args;
  if (name === 'cohorts.apply' || name === 'scheduleCohorts.apply') return chaos.isRangeAway(first as string);
  if (name.startsWith('jobs.read') || name === 'schedules.read')
    return (first as readonly string[]).some((jobId) => chaos.isRangeAway(cohortOf(jobId)));
  return false;
}

const TABLE_OF_CALL: Readonly<Record<string, TimerRows['table']>> = {
  'timers.readDue': 'due',
  'timers.writeDue': 'due',
  'timers.readDeadlines': 'deadlines',
  'timers.writeDeadlines': 'deadlines',
};

function areTimersAway(chaos: Chaos, name: string, args: readonly unknown[]): boolean {
  const table = TABLE_OF_CALL[name];
  if (table === undefined) return false;
  const places = [args[0]].flat() as readonly { readonly shard: number }[];
  return places.some(({ shard }) => chaos.areTimersAway({ table, shard }));
}

/** Of a call's arguments, what a reader of the trace looks for. */
function textOf(args: readonly unknown[]): string {
  return args
    .map((arg) => (Array.isArray(arg) ? `[${arg.map(wordOf).join(', ')}]` : wordOf(arg)))
    .join(' ')
    .slice(0, 400);
}

function wordOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const { edge, jobId, attempt, at, runAt } = value as Partial<Record<'edge' | 'jobId', string>> &
    Partial<Record<'attempt' | 'at' | 'runAt', number>>;
  if (edge !== undefined) return `${edge} ${jobId ?? ''}${attempt === undefined ? '' : `#${attempt}`}`;
  if (jobId !== undefined) return `${jobId}@${clockText(at ?? runAt)}`;
  const { bucket, from, to, shard, queue, priority, place } = value as Partial<Record<string, unknown>>;
  if (queue !== undefined) {
    const where = place === undefined ? '' : ` at ${wordOf(place)}`;
    return `shard ${String(shard)} ${queue as string} ${String(priority)}${where}`;
  }
  if (bucket !== undefined) return `shard ${String(shard)} ${clockText(from)}-${clockText(to)}`;
  return '{}';
}

function clockText(at: unknown): string {
  return typeof at === 'number' ? new Date(at).toISOString().slice(11, 23) : String(at);
}
