import { type BulkPosition, type BulkTask, seeksDeadJobs } from '../domain/bulk.ts';
import type { IndexPage, JobIndex } from '../scan/job-index.ts';

/** Rows of one page, in memory at a time. */
const PAGE_ROWS = 1_000;

/** The next rows of the index that a bulk operation has to look at. Throws StoreError. */
export async function bulkPage(
  index: JobIndex,
  { verb, filter }: BulkTask,
  after: BulkPosition | null,
): Promise<IndexPage<BulkPosition>> {
  const query = { queue: filter.queue, from: filter.from, to: filter.to, after };
  if (seeksDeadJobs(verb)) {
    const { rows, next } = await index.dead(query);
    return { rows: rows.map(({ deadAt, jobId }) => ({ at: deadAt, jobId })), next };
  }
  const { rows, next } = await index.due(query, PAGE_ROWS);
  return { rows: rows.map(({ runAt, jobId }) => ({ at: runAt, jobId })), next };
}
