// One Cassandra 5.0 node from the cached jars.

import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { installCassandra } from './install.ts';
import { type Progress, silent, withProgress } from './progress.ts';
import { type ServerProcess, launchServer } from './server-process.ts';

/** Of every embedded node. */
export const DATA_CENTER = 'datacenter1';
// The bash entries look for a Java 17; a test file started by hand takes the machine's.
const JAVA = process.env.PUNCTUAL_JAVA ?? 'java';
const CONNECT_LIMIT_MS = 1_000;

/**
 * When a write is acknowledged. `batch`: once the commit log is on disk, so that it survives kill -9 and a power cut.
 * `periodic` answers at once: kill -9 takes the acknowledged writes of the last 100 ms along, because the log is read
 * again up to its last marker and those are set every 100 ms (4 kills under load: 1-14 rows gone in 3 of them; with batch
 * none in 12). LWTs are 2-3 times as fast with it: for tests that kill no server, and for benchmarks.
 */
export type CommitlogSync = 'batch' | 'periodic';

export interface CassandraOptions {
  /** Absolute. Started again on the same folder, the node has its data again. */
  readonly dir: string;
  /** CQL. */
  readonly port: number;
  /** Between nodes: the same one on all nodes of a cluster. */
  readonly storagePort: number;
  /** A loopback address; nodes of one cluster have one each: 127.0.7.1, 127.0.7.2, ... */
  readonly address?: string;
  /** The address of the cluster's first node; the node is its own seed without. */
  readonly seed?: string;
  readonly heapMb?: number;
  /**
   * Compiles quickly instead of well: a start costs 9.8 s of a core instead of 16.9 (measured). For several nodes that live for
   * minutes on two cores.
   */
  readonly isShortLived?: boolean;
  readonly commitlogSync?: CommitlogSync;
  readonly lifetime?: 'ours' | 'detached';
  readonly progress?: Progress;
}

// What conf/jvm17-server.options of the distribution opens of the Java modules, module by module.
const EXPORTS = {
  'java.base': ['jdk.internal.misc', 'jdk.internal.ref', 'sun.nio.ch', 'java.lang.ref'],
  'java.management.rmi': ['com.sun.jmx.remote.internal.rmi'],
  'java.rmi': ['sun.rmi.registry', 'sun.rmi.server'],
  'java.sql': ['java.sql'],
  'jdk.attach': ['sun.tools.attach'],
  'jdk.compiler': ['com.sun.tools.javac.file'],
  'jdk.unsupported': ['sun.misc'],
};
const OPENS = {
  'java.base': [
    ...['java.io', 'java.lang', 'java.lang.module', 'java.lang.reflect', 'java.util', 'sun.nio.ch'],
    ...['jdk.internal.loader', 'jdk.internal.math', 'jdk.internal.module', 'jdk.internal.ref', 'jdk.internal.reflect'],
    'jdk.internal.util.jar',
  ],
  'jdk.compiler': ['com.sun.tools.javac'],
  'jdk.management': ['com.sun.management.internal'],
};

function moduleFlags(flag: string, packages: Record<string, readonly string[]>): string[] {
  return Object.entries(packages).flatMap(([module, names]) =>
    names.map((name) => `${flag}=${module}/${name}=ALL-UNNAMED`),
  );
}

function javaFlags(options: { jars: string; dir: string; heapMb: number; isShortLived: boolean }): string[] {
  const { jars, dir, heapMb, isShortLived } = options;
  return [
    `-Xms${heapMb}M`,
    `-Xmx${heapMb}M`,
    // Two cores that everything shares: G1's marking beside the work takes one of them for a second at a time. Below a gigabyte
    // the serial collector makes the smaller process.
    heapMb < 1_024 ? '-XX:+UseSerialGC' : '-XX:+UseParallelGC',
    ...(isShortLived ? ['-XX:TieredStopAtLevel=1'] : []),
    '-XX:+ExitOnOutOfMemoryError',
    '-XX:+PerfDisableSharedMem',
    `-javaagent:${join(jars, 'jamm-0.4.0.jar')}`,
    '-Djdk.attach.allowAttachSelf=true',
    '-Dio.netty.tryReflectionSetAccessible=true',
    ...moduleFlags('--add-exports', EXPORTS),
    ...moduleFlags('--add-opens', OPENS),
    `-Dcassandra.config=file://${join(dir, 'cassandra.yaml')}`,
    `-Dcassandra.storagedir=${join(dir, 'data')}`,
    `-Dlogback.configurationFile=${join(import.meta.dirname, 'logback.xml')}`,
    // One node, or a few that start one after the other: nothing to wait for in the ring.
    '-Dcassandra.skip_wait_for_gossip_to_settle=0',
    '-Dcassandra.ring_delay_ms=1000',
    '-Dcassandra.superuser_setup_delay_ms=0',
    ...['-classpath', join(jars, '*'), 'org.apache.cassandra.service.CassandraDaemon'],
  ];
}

function configuration(options: {
  address: string;
  port: number;
  storagePort: number;
  seed: string;
  commitlogSync: CommitlogSync;
}): object {
  return {
    cluster_name: 'punctual',
    partitioner: 'org.apache.cassandra.dht.Murmur3Partitioner',
    endpoint_snitch: 'SimpleSnitch',
    num_tokens: 4,
    allocate_tokens_for_local_replication_factor: 3,
    auto_bootstrap: false,
    seed_provider: [
      {
        class_name: 'org.apache.cassandra.locator.SimpleSeedProvider',
        parameters: [{ seeds: `${options.seed}:${options.storagePort}` }],
      },
    ],
    listen_address: options.address,
    rpc_address: options.address,
    storage_port: options.storagePort,
    native_transport_port: options.port,
    storage_compatibility_mode: 'NONE',
    paxos_variant: 'v2',
    commitlog_sync: options.commitlogSync,
    ...(options.commitlogSync === 'periodic' && { commitlog_sync_period: '1000ms' }),
    // Memory-mapped: with direct I/O a periodic log lost all that was acknowledged since its last sync (measured).
    commitlog_disk_access_mode: 'legacy',
    memtable: {
      configurations: {
        trie: { class_name: 'TrieMemtable' },
        default: { inherits: 'trie' },
      },
    },
    sstable: { selected_format: 'bti' },
  };
}

/** Answers once the CQL port takes connections: Cassandra opens it last of all. */
async function acceptsConnections(address: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: address, port, timeout: CONNECT_LIMIT_MS });
  socket.once('connect', () => {
    resolve(true);
  });
  for (const event of ['error', 'timeout']) {
    socket.once(event, () => {
      resolve(false);
    });
  }
  const accepted = await promise;
  socket.destroy();
  return accepted;
}

/** Starts a node and waits until it answers CQL: 7-10 s. Throws with the end of its log if it does not. */
export async function startCassandra(options: CassandraOptions): Promise<ServerProcess> {
  const { dir, port, storagePort, address = '127.0.0.1', heapMb = 1_024, progress = silent } = options;
  const { seed = address, commitlogSync = 'batch', isShortLived = false } = options;
  const jars = await installCassandra(progress);
  mkdirSync(dir, { recursive: true });
  writeFileSync(
    join(dir, 'cassandra.yaml'),
    stringify(configuration({ address, port, storagePort, seed, commitlogSync })),
  );
  return withProgress(progress, `Starting Cassandra on ${address}:${port}`, () =>
    launchServer({
      name: 'Cassandra',
      dir,
      contactPoint: `${address}:${port}`,
      ports: {
        address,
        wanted: [
          { number: port, purpose: 'Cassandra (CQL)' },
          { number: storagePort, purpose: 'Cassandra (between nodes)' },
        ],
      },
      command: JAVA,
      args: javaFlags({ jars, dir, heapMb, isShortLived }),
      lifetime: options.lifetime ?? 'ours',
      isReady: () => acceptsConnections(address, port),
    }),
  );
}
