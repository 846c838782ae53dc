// What the system counts of itself while a scenario runs: rounds by the services' own metrics, statements by Cassandra's.

import type { Client } from 'cassandra-driver';

/** Counts by name; two readings are compared by `grown`. */
export type Counts = Readonly<Record<string, number>>;

export function grown(before: Counts, after: Counts): Record<string, number> {
  const names = Object.keys(after).filter((name) => (after[name] ?? 0) !== (before[name] ?? 0));
  return Object.fromEntries(names.map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)]));
}

export function perJob(counts: Counts, jobs: number): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / jobs]));
}

export function total(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** Rounds sent so far by edge, whatever came of them: of all processes whose metrics are at these addresses. */
export async function countRounds(metricsUrls: readonly string[]): Promise<Counts> {
  return sumSamples(metricsUrls, 'punctual_round_duration_seconds_count', 'edge');
}

/** Attempts that ended so far, by outcome. */
export async function countAttempts(metricsUrls: readonly string[]): Promise<Counts> {
  return sumSamples(metricsUrls, 'punctual_attempts_total', 'outcome');
}

/** Slots of schedules that are over for the dispatchers, by outcome: their next ones are written. */
export async function countFires(metricsUrls: readonly string[]): Promise<Counts> {
  return sumSamples(metricsUrls, 'punctual_schedule_fires_total', 'outcome');
}

/** Sums the metric by one of its labels. */
async function sumSamples(metricsUrls: readonly string[], metric: string, label: string): Promise<Counts> {
  const texts = await Promise.all(metricsUrls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
  const sums: Record<string, number> = {};
  for (const line of texts.flatMap((text) => text.split('\n'))) {
    if (!line.startsWith(`${metric}{`)) continue;
    const value = new RegExp(`[{,]${label}="([^"]*)"`).exec(line)?.[1] ?? '';
    sums[value] = (sums[value] ?? 0) + Number(line.slice(line.lastIndexOf('} ') + 2).split(' ')[0]);
  }
  return sums;
}

const STATEMENT_TABLES = { reads: 'coordinator_read_latency', writes: 'coordinator_write_latency' };

/** Reads and writes of the keyspace so far, by table, over all nodes; a batch of writes counts once, a round not at all. */
export async function countStatements(client: Client, keyspace: string): Promise<Record<'reads' | 'writes', Counts>> {
  const [reads = {}, writes = {}] = await Promise.all(
    Object.values(STATEMENT_TABLES).map(async (view) => {
      const sums: Record<string, number> = {};
      for (const host of client.getState().getConnectedHosts()) {
        const { rows } = await client.execute(`SELECT keyspace_name, table_name, count FROM system_views.${view}`, [], {
          host,
          consistency: 1,
        });
        for (const row of rows) {
          if (row['keyspace_name'] !== keyspace) continue;
          const table = String(row['table_name']);
          sums[table] = (sums[table] ?? 0) + Number(row['count']);
        }
      }
      return sums;
    }),
  );
  return { reads, writes };
}
