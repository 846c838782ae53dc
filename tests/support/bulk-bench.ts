// Bulk operations on memory stores: an api that starts and stops them, and reapers, one after the other or two at once, that run
// them and can be killed between any two calls of a store.

import { OperationRegister } from '../../services/core/bulk/operation-register.ts';
import { DryRunner } from '../../services/api/use-cases/dry-run.ts';
import { KeyedCalls } from '../../services/api/use-cases/keyed-calls.ts';
import { OperationKeeper } from '../../services/api/use-cases/operations.ts';
import type { StartOperation } from '../../services/api/use-cases/types.ts';
import type { BulkOperation } from '../../services/core/domain/bulk.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { DAY_MS, MINUTE_MS, ROWS_POOL_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { JobMover } from '../../services/core/moves/move-job.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { JobIndex } from '../../services/core/scan/job-index.ts';
import { RowPool } from '../../services/core/scan/row-pool.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { BulkCarrier } from '../../services/reaper/bulk-carrier.ts';
import { SettledRows, ShardDeadlines } from '../../services/reaper/deadlines.ts';
import { Operations, settlesAll } from '../../services/reaper/operations.ts';
import { coreBench, type CoreBenchOptions } from './core-bench.ts';
import { FAKE_START } from './fake-clock.ts';

const SHARDS = 1;

/** A reaper process: its second is a look at the deadlines. */
export interface ReaperProcess {
  /** As kill -9: from now on no call of it is made, and of those under way no answer comes. */
  kill(): void;
  /** Its lease has lapsed, or is there again. */
  holds: boolean;
  stop(): Promise<void>;
}

export function bulkBench(options: CoreBenchOptions = {}) {
  const core = coreBench(options);
  const { stores, clock } = core;
  const { hints, random, overlaps, leftBehind, log, telemetry } = core.parts;
  const index = new JobIndex({ timerStore: stores.timers, history: stores.history, shards: SHARDS });
  const keeper = new OperationKeeper({
    ...core.parts,
    store: stores.operations,
    register: new OperationRegister({ store: stores.operations, clock, random }),
    keyed: new KeyedCalls(stores.keys, clock),
    audit: stores.audit,
    shards: SHARDS,
  });

  const reaper = (onCall?: () => void): ReaperProcess & { runOnce(): void } => {
    const state = { holds: true, dead: false };
    const mine = <Store extends object>(store: Store): Store =>
      mortal(store, () => {
        if (!state.dead) onCall?.();
        return state.dead;
      });
    const reader = mine(stores.jobs);
    const history = mine(stores.history);
    const rounds = new Rounds({ store: mine(stores.cohorts), reader, clock, telemetry });
    const timers = new Timers({ store: mine(stores.timers), hints, clock });
    const operations = new Operations({
      store: mine(stores.operations),
      register: new OperationRegister({ store: mine(stores.operations), clock, random }),
      index: new JobIndex({ timerStore: mine(stores.timers), history, shards: SHARDS }),
      carrier: new BulkCarrier({
        reader,
        rounds,
        timers,
        mover: new JobMover({ rounds, timers, overlaps }),
        canceller: new WaitingCanceller({ rounds, timers, history, overlaps, leftBehind, clock, log }),
        clock,
      }),
      timers,
      clock,
      random,
      log,
      holds: () => state.holds && !state.dead,
    });
    const deadlines = new ShardDeadlines({
      timerStore: mine(stores.timers),
      settler: settlesAll({ settle: async (found) => found.map(() => 'settled' as const) }, operations),
      settledRows: new SettledRows(),
      pool: new RowPool(ROWS_POOL_MAX),
      clock,
      shard: 0,
      from: clock.now() - MINUTE_MS,
      republishedAt: () => null,
    });
    let busy = false;
    return {
      kill: () => void (state.dead = true),
      get holds() {
        return state.holds;
      },
      set holds(holds) {
        state.holds = holds;
      },
      stop: () => operations.stop(),
      runOnce: () => {
        if (busy || state.dead || !state.holds) return;
        busy = true;
        void deadlines.runOnce().then(
          () => (busy = false),
          () => (busy = false),
        );
      },
    };
  };

  const reapers: ReturnType<typeof reaper>[] = [];
  return {
    ...core,
    index,
    keeper,
    dryRunner: new DryRunner({ index, reader: stores.jobs, clock }),
    startReaper: (onCall?: () => void): ReaperProcess => {
      const started = reaper(onCall);
      reapers.push(started);
      return started;
    },
    /** Jobs with the rows of the index that their life has left. */
    add: (...jobs: readonly JobRow[]) => {
      for (const job of jobs) {
        const { jobId, queue, runAt, shard, priority, attempt } = job;
        stores.rows.set(jobId, job);
        stores.due.write([{ jobId, queue, runAt, shard, priority, attempt, direct: false }]);
        if (job.status !== 'dead') continue;
        const deadAt = job.finishedAt ?? 0;
        const letter = { jobId, queue, deadAt, attempt, reason: 'attempts', error: job.lastError };
        stores.letters.set(`${queue} ${deadAt} ${jobId}`, letter);
      }
    },
    /** Seconds in which every reaper looks at its deadlines. */
    run: async (seconds: number) => {
      for (let second = 0; second < seconds; second += 1) {
        for (const each of reapers) each.runOnce();
        await clock.advance(SECOND_MS);
      }
    },
    find: (operationId: string): BulkOperation => {
      const found = stores.operationRows.get(operationId)?.row;
      if (found === undefined) throw new Error(`no operation ${operationId}`);
      return found;
    },
  };
}

/** A replay of the queue `mail` over the last day, unless said otherwise. */
export function startRequest(overrides: Partial<StartOperation> = {}): StartOperation {
  const filter = {
    queue: 'mail',
    from: FAKE_START - DAY_MS,
    to: FAKE_START + DAY_MS,
    status: null,
    label: null,
    error: null,
  };
  return {
    verb: 'replay',
    filter,
    newTime: null,
    replayChanges: null,
    ratePerS: 1_000,
    owner: 'default',
    key: null,
    ...overrides,
  };
}

/** A store whose calls are neither made nor answered once the process that makes them is dead. */
function mortal<Store extends object>(store: Store, isDead: () => boolean): Store {
  const never = new Promise<never>(() => undefined);
  return new Proxy(store, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== 'function') return method;
      return (...args: readonly unknown[]): unknown => {
        if (isDead()) return neverEnding(never);
        const answer: unknown = Reflect.apply(method, target, args);
        return answer instanceof Promise ? answer.then((value: unknown) => (isDead() ? never : value)) : answer;
      };
    },
  });
}

/** For callers that await it, and those that iterate over it. */
function neverEnding(never: Promise<never>): Promise<never> & AsyncIterable<never> {
  return Object.assign(never.then(), { [Symbol.asyncIterator]: () => ({ next: () => never }) });
}
