import { Fsck, type FsckOptions, type FsckProgress } from '../core/fsck/fsck.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import { QueueBook } from '../core/queues/queue-book.ts';
import { ClockGuard } from '../core/runtime/clock-guard.ts';
import type { Config } from '../core/runtime/config.ts';
import { systemRandom } from '../core/runtime/system-random.ts';
import { createRingStore } from '../core/storage/ring-store.ts';
import { openSession } from '../core/storage/session.ts';
import { createStores } from '../core/storage/stores.ts';
import { Timers } from '../core/timers/timers.ts';

export interface FsckTools {
  readonly fsck: Fsck;
  readonly timers: Timers;
  close(): Promise<void>;
}

/** How long Cassandra is dialled. */
const CONNECT_MAX_MS = 30 * SECOND_MS;

const NO_TELEMETRY: Telemetry = { count: ignore, observe: ignore, gauge: ignore, dropGauge: ignore };

/** Rejects when Cassandra does not answer, its schema is too old, or the clock of this machine is wrong: times are judged by it. */
export async function composeFsck(
  config: Config,
  options: FsckOptions,
  { clock, log, onProgress }: { clock: Clock; log: Log; onProgress: (progress: FsckProgress) => void },
): Promise<FsckTools> {
  const giveUp = new AbortController();
  const stopWaiting = clock.after(CONNECT_MAX_MS, () => {
    const at = config.cassandra.contactPoints.join(', ');
    giveUp.abort(
      new Error(
        `Cassandra did not answer at ${at} for ${CONNECT_MAX_MS / SECOND_MS} s (PUNCTUAL_CASSANDRA_CONTACT_POINTS)`,
      ),
    );
  });
  const session = await openSession(config.cassandra, { telemetry: NO_TELEMETRY, clock, log, signal: giveUp.signal });
  stopWaiting();
  try {
    const guard = new ClockGuard({
      ...{ clock, log, random: systemRandom, telemetry: NO_TELEMETRY },
      sources: () => session.clockSources(),
    });
    await guard.check();
    const problem = guard.problem();
    if (problem !== null) throw new Error(problem);
    const stores = createStores(session, { clock });
    const [shards, startedAt] = [await stores.settings.read('write_shards'), await stores.settings.read('started_at')];
    const queueBook = new QueueBook({ store: stores.queues, clock });
    await queueBook.refresh();
    const fsck = new Fsck(
      {
        ...stores,
        ring: createRingStore(session),
        clock,
        onProgress,
        shards: Number(shards ?? config.writeShards),
        clusterStartedAt: startedAt === null ? clock.now() : Date.parse(startedAt),
        retentionOf: (queue) => queueBook.retentionOf(queue),
      },
      options,
    );
    // Nobody is told of the rows that a repair writes: the next whole read finds them.
    const hints = { send: ignore, listen: () => ignore };
    const timers = new Timers({ store: stores.timers, hints, clock, isClockRight: () => guard.trusts() });
    return { fsck, timers, close: () => session.close() };
  } catch (error) {
    await session.close();
    throw error;
  }
}

function ignore(): void {
  // Nobody looks.
}
