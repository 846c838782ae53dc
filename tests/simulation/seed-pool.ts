// Many seeds on all cores.

import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { RunResult } from './simulation.ts';
import type { SeedOrder } from './seed-worker.ts';

/** Runs the orders in turn, ending early when told to; calls back with each result as it comes. */
export async function runSeeds(
  orders: Iterable<SeedOrder>,
  onResult: (result: RunResult, order: SeedOrder) => void,
  stopping: AbortSignal,
): Promise<void> {
  const left = orders[Symbol.iterator]();
  const threads = Array.from({ length: availableParallelism() }, async () => {
    const worker = new Worker(join(import.meta.dirname, 'seed-worker.ts'));
    // A thread that dies rejects the wait for its result.
    const stopped = once(stopping, 'abort').then(() => null);
    try {
      for (let next = left.next(); next.done !== true && !stopping.aborted; next = left.next()) {
        worker.postMessage(next.value);
        const answer = await Promise.race([once(worker, 'message'), stopped]);
        if (answer === null) return;
        onResult(answer[0] as RunResult, next.value);
      }
    } finally {
      await worker.terminate();
    }
  });
  await Promise.all(threads);
}
