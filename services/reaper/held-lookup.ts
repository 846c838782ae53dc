import { hourOf } from '../core/domain/bucket.ts';
import type { JobRow } from '../core/domain/job.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { compareHeldPlaces, type HeldPlace, type HeldStore } from '../core/ports/held-store.ts';

/** An overdue job, and the time of the due row that its dispatcher passed over. */
export interface PassedOver {
  readonly job: JobRow;
  readonly runAt: EpochMs;
}

/** Which of the overdue jobs of one batch have a held row: asked once for each queue, priority and hour among them. */
export class HeldLookup {
  readonly #store: Pick<HeldStore, 'standing'>;
  readonly #batch: ReadonlyMap<string, readonly PassedOver[]>;
  readonly #asked = new Map<string, Promise<readonly HeldPlace[]>>();

  constructor(store: Pick<HeldStore, 'standing'>, batch: readonly PassedOver[]) {
    this.#store = store;
    this.#batch = Map.groupBy(batch, keyOf);
  }

  /** @param one of the batch. Throws StoreError. */
  async isHeld(one: PassedOver): Promise<boolean> {
    const key = keyOf(one);
    const asked = this.#asked.get(key) ?? this.#ask(one, this.#batch.get(key) ?? []);
    this.#asked.set(key, asked);
    const { jobId, runAt } = one.job;
    // A row means "by now": one from before the job's time is of an earlier attempt.
    return (await asked).some((place) => place.jobId === jobId && place.runAt >= runAt);
  }

  #ask({ job, runAt }: PassedOver, others: readonly PassedOver[]): Promise<readonly HeldPlace[]> {
    const { shard, queue, priority } = job;
    const places = others.map(placeOf).toSorted(compareHeldPlaces);
    const [first = { runAt, jobId: job.jobId }] = places;
    return this.#store.standing({ shard, queue, priority, hour: hourOf(runAt) }, first, places.at(-1) ?? first);
  }
}

function placeOf({ job, runAt }: PassedOver): HeldPlace {
  return { runAt, jobId: job.jobId };
}

function keyOf({ job, runAt }: PassedOver): string {
  return `${job.shard} ${job.queue} ${job.priority} ${hourOf(runAt)}`;
}
