// What jobs cost between two readings.

import { grown, perJob, total } from './counters.ts';
import type { Reading } from './stage.ts';

type Figures = Readonly<Record<string, number>>;

export interface Costs {
  /** Conditional writes by edge: each moves up to a cohort of jobs. */
  readonly rounds_per_job: Figures;
  /** By table, also those that look for work and find none. */
  readonly reads_per_job: Figures;
  /** By table, a batch counting once; rounds are not among them. */
  readonly writes_per_job: Figures;
  readonly cpu_s_per_1000_jobs: Figures;
}

export function costsBetween(before: Reading, after: Reading, jobs: number): Costs {
  const withTotal = (figures: Record<string, number>): Figures => ({ ...figures, total: total(figures) });
  return {
    rounds_per_job: withTotal(perJob(grown(before.rounds, after.rounds), jobs)),
    reads_per_job: withTotal(perJob(grown(before.reads, after.reads), jobs)),
    writes_per_job: withTotal(perJob(grown(before.writes, after.writes), jobs)),
    cpu_s_per_1000_jobs: cpuPer1000(before, after, jobs),
  };
}

/** The load program is not part of the product: it stands beside the total. */
function cpuPer1000(before: Reading, after: Reading, jobs: number): Figures {
  const { 'load program': load = 0, ...product } = perJob(grown(before.cpuS, after.cpuS), jobs / 1_000);
  return { ...product, total: total(product), 'beside it: load program': load };
}

/** Share of one core, by process. */
export function coreShares(before: Reading, after: Reading): Figures {
  const { 'load program': _, ...product } = perJob(grown(before.cpuS, after.cpuS), (after.at - before.at) / 1_000);
  return product;
}
