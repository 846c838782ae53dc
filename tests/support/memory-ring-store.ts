// The ring of all rows in memory, over the tables of MemoryStores.

import { bucketOf } from '../../services/core/domain/bucket.ts';
import { cohortOf, shardOf } from '../../services/core/domain/ids.ts';
import type { EndPlace, RingPart, RingStore } from '../../services/core/ports/ring-store.ts';
import type { MemoryStores } from './memory-store.ts';

export function memoryRing(stores: MemoryStores): RingStore {
  return {
    jobs: (part) => pages(part, stores.rows.values(), ({ cohort }) => cohort),
    schedules: (part) => pages(part, stores.scheduleTables.rows.values(), ({ cohort }) => cohort),
    operations: (part) => {
      const rows = Array.from(stores.operationRows.values(), ({ row }) => row);
      return pages(part, rows, ({ operationId }) => operationId);
    },
    due: (part) => pages(part, stores.due.all(), ({ shard, runAt }) => `${shard} ${bucketOf(runAt)}`),
    deadlines: (part) => pages(part, stores.deadlines.all(), ({ shard, at }) => `${shard} ${bucketOf(at)}`),
    standingDue: async (places) => {
      const standing = new Set(stores.due.all().map(({ shard, runAt, jobId }) => `${shard} ${runAt} ${jobId}`));
      return ids(places.filter(({ shard, runAt, jobId }) => standing.has(`${shard} ${runAt} ${jobId}`)));
    },
    recordedEnds: async (places) => ids(places.filter((place) => stores.finished.has(endKey(place)))),
    deadLetters: async (places) => ids(places.filter((place) => stores.letters.has(endKey(place)))),
    existingJobs: async (jobIds) => new Set(jobIds.filter((jobId) => cohortOf(jobId) !== '' && stores.rows.has(jobId))),
  };
}

function endKey({ queue, at, jobId }: EndPlace): string {
  return `${queue} ${at} ${jobId}`;
}

function ids(rows: readonly { readonly jobId: string }[]): ReadonlySet<string> {
  return new Set(rows.map(({ jobId }) => jobId));
}

async function* pages<Row>(
  { part, of, pageRows }: RingPart,
  rows: Iterable<Row>,
  partitionOf: (row: Row) => string,
): AsyncGenerator<readonly Row[]> {
  const ofPart = [...rows].filter((row) => shardOf(partitionOf(row), of) === part);
  for (let start = 0; start < ofPart.length; start += pageRows) yield ofPart.slice(start, start + pageRows);
}
