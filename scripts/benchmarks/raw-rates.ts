// What the servers at hand reach by themselves, to compare with: one statement or message at a time, many in flight.

import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { type Client, types } from 'cassandra-driver';
import type { Progress } from '../embedded/progress.ts';
import { untilWarm } from './warm-up.ts';

export interface RawRates {
  /** UPDATE ... IF of one row each, at concurrency 128. */
  readonly lwt_updates_per_s: number;
  readonly plain_inserts_per_s: number;
  readonly jetstream_publishes_per_s: number;
}

const LWT_CONCURRENCY = 128;
const INSERT_CONCURRENCY = 256;
const PUBLISH_CONCURRENCY = 256;
const MESSAGE_BYTES = 150;
const PAYLOAD = 'x'.repeat(300);
const LEVELS = {
  prepare: true,
  consistency: types.consistencies.localQuorum,
  serialConsistency: types.consistencies.localSerial,
};
const WARM_WINDOWS_MAX = 25;

/** @param seconds of each measurement. */
export async function measureRawRates(
  client: Client,
  natsServers: readonly string[],
  { seconds, progress }: { readonly seconds: number; readonly progress: Progress },
): Promise<RawRates> {
  progress('• raw rates of the servers');
  const lwt = await lwtWriter(client);
  await untilWarm(WARM_WINDOWS_MAX, () => rateOf(lwt, LWT_CONCURRENCY, seconds));
  const lwtRate = await rateOf(lwt, LWT_CONCURRENCY, seconds);
  const insertRate = await rateOf(insertWriter(client), INSERT_CONCURRENCY, seconds);
  const publishRate = await publishes(natsServers, seconds);
  const rates = {
    lwt_updates_per_s: Math.round(lwtRate),
    plain_inserts_per_s: Math.round(insertRate),
    jetstream_publishes_per_s: Math.round(publishRate),
  };
  progress(`  ${JSON.stringify(rates)}`);
  return rates;
}

/** Updates a row of its own at each call of a slot. */
async function lwtWriter(client: Client): Promise<(slot: number) => Promise<void>> {
  await client.execute('CREATE TABLE IF NOT EXISTS bench_lwt (id text PRIMARY KEY, payload text, attempt int)');
  await client.execute('CREATE TABLE IF NOT EXISTS bench_plain (id text PRIMARY KEY, payload text)');
  const rowsOf = new Map<number, { id: string; attempt: number }>();
  return async (slot) => {
    let row = rowsOf.get(slot);
    if (row === undefined) {
      row = { id: crypto.randomUUID(), attempt: 0 };
      rowsOf.set(slot, row);
      await client.execute(
        'INSERT INTO bench_lwt (id, payload, attempt) VALUES (?, ?, 0) IF NOT EXISTS',
        [row.id, PAYLOAD],
        LEVELS,
      );
    }
    const result = await client.execute(
      'UPDATE bench_lwt SET attempt = ? WHERE id = ? IF attempt = ?',
      [row.attempt + 1, row.id, row.attempt],
      LEVELS,
    );
    if (!result.wasApplied()) throw new Error('a row that nobody else writes was changed');
    row.attempt += 1;
  };
}

function insertWriter(client: Client): () => Promise<void> {
  return async () => {
    await client.execute('INSERT INTO bench_plain (id, payload) VALUES (?, ?)', [crypto.randomUUID(), PAYLOAD], LEVELS);
  };
}

async function publishes(servers: readonly string[], seconds: number): Promise<number> {
  const nats = await connect({ servers: [...servers], noAsyncTraces: true });
  const name = `bench_raw_${process.pid}`;
  const jsm = await jetstreamManager(nats);
  try {
    await jsm.streams.add({ name, subjects: [`${name}.>`], max_bytes: 256 * 1024 * 1024, discard: 'old' });
    const js = jetstream(nats);
    const message = 'x'.repeat(MESSAGE_BYTES);
    return await rateOf(
      async () => {
        await js.publish(`${name}.message`, message);
      },
      PUBLISH_CONCURRENCY,
      seconds,
    );
  } finally {
    await jsm.streams.delete(name);
    await nats.close();
  }
}

/** Calls per second with so many in flight. */
async function rateOf(call: (slot: number) => Promise<void>, concurrency: number, seconds: number): Promise<number> {
  const startedAt = performance.now();
  const end = startedAt + seconds * 1_000;
  let calls = 0;
  await Promise.all(
    Array.from({ length: concurrency }, async (_, slot) => {
      while (performance.now() < end) {
        await call(slot);
        calls += 1;
      }
    }),
  );
  return (calls / (performance.now() - startedAt)) * 1_000;
}
