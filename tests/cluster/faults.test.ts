// Three Cassandra nodes, three nats-servers and two of each service; one at a time is killed, stopped for 30 s and started anew,
// under load: nothing that was accepted is lost, nothing is done twice, and fsck finds nothing. How late jobs start meanwhile
// stands in the table that it prints.
//
// A short form runs with all tests; `scripts/test cluster --long` strikes every one of them in every way, in an hour and a half.

import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { ServiceProcess } from '../support/cluster.ts';
import { type Fault, type FaultRow, runFault, setStage, type Stage, tableOf } from '../support/faults-stage.ts';
import { assertTheRestGoesOn } from '../support/lost-range.ts';
import { assertOneSchema } from '../support/new-keyspace.ts';
import type { PrivateServer } from '../support/servers.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';
import { untilRingIsWhole } from '../support/three-nodes.ts';

const IS_LONG = process.env['PUNCTUAL_TEST_LONG'] === '1';
const JOBS_PER_S = Number(process.env['PUNCTUAL_TEST_JOBS_PER_S'] ?? (IS_LONG ? '100' : '30'));
const STOPPED_MS = 30_000;
const DEAD_MS = IS_LONG ? 15_000 : 5_000;
const NATS_AWAY_MS = 60_000;
const FAULT_LIMIT_MS = 420_000;

type Pick<Part> = (stage: Stage) => Part;

const cassandra =
  (index: number): Pick<PrivateServer> =>
  ({ nodes }) =>
    nodes.cassandra[index]!;
const nats =
  (index: number): Pick<PrivateServer> =>
  ({ nodes }) =>
    nodes.nats[index]!;

/** Resolves once they are back and all of Cassandra's nodes know each other. */
async function killFor(ms: number, servers: readonly PrivateServer[], { nodes }: Stage): Promise<void> {
  await Promise.all(servers.map(({ process }) => process.kill('SIGKILL')));
  await sleep(ms);
  await Promise.all(servers.map((server) => server.restart()));
  await untilRingIsWhole(nodes.servers);
}

function serverFaults(title: string, pick: Pick<PrivateServer>): Fault[] {
  const whole = ({ nodes }: Stage): Promise<void> => untilRingIsWhole(nodes.servers);
  return [
    {
      name: `${title}: kill -9, started again after ${DEAD_MS / 1_000} s`,
      strike: (stage) => killFor(DEAD_MS, [pick(stage)], stage),
    },
    {
      name: `${title}: stopped for ${STOPPED_MS / 1_000} s`,
      strike: async (stage) => {
        await pick(stage).process.kill('SIGSTOP');
        await sleep(STOPPED_MS);
        await pick(stage).process.kill('SIGCONT');
        await whole(stage);
      },
    },
    {
      name: `${title}: restarted`,
      strike: async (stage) => {
        await pick(stage).process.stop();
        await pick(stage).restart();
        await whole(stage);
      },
    },
  ];
}

function serviceFaults(title: string, pick: Pick<ServiceProcess>): Fault[] {
  return [
    {
      name: `${title}: kill -9, started again after ${DEAD_MS / 1_000} s`,
      strike: async (stage) => {
        await pick(stage).kill();
        await sleep(DEAD_MS);
        await pick(stage).restart();
      },
    },
    {
      name: `${title}: stopped for ${STOPPED_MS / 1_000} s`,
      strike: async (stage) => {
        pick(stage).signal('SIGSTOP');
        await sleep(STOPPED_MS);
        pick(stage).signal('SIGCONT');
      },
    },
    {
      name: `${title}: restarted`,
      strike: async (stage) => {
        await pick(stage).stop();
        await pick(stage).restart();
      },
    },
  ];
}

const CALM: Fault = { name: 'none', strike: () => sleep(10_000) };

const NATS_AWAY: Fault = {
  name: `all nats-servers: kill -9, started again after ${NATS_AWAY_MS / 1_000} s`,
  strike: (stage) => killFor(NATS_AWAY_MS, stage.nodes.nats, stage),
};

const STREAM_DELETED: Fault = {
  name: 'the ready stream: deleted',
  strike: async ({ cluster, nodes }) => {
    const connection = await connect({ servers: [...nodes.servers.natsServers] });
    const name = `${cluster.environment['PUNCTUAL_NATS_PREFIX'] ?? ''}READY_0`;
    await (await jetstreamManager(connection)).streams.delete(name);
    await connection.close();
    await sleep(5_000);
  },
};

/** The second of each kind at once, as when a machine dies that runs one of each. */
const MACHINE: Fault = {
  name: 'one api, dispatcher and reaper together: kill -9, started again after 5 s',
  strike: async ({ cluster: { apis, dispatchers, reapers } }) => {
    const victims = [apis[1]!, dispatchers[1]!, reapers[1]!];
    await Promise.all(victims.map((service) => service.kill()));
    await sleep(5_000);
    await Promise.all(victims.map((service) => service.restart()));
  },
};

/** As when a machine dies that runs one of each. */
const SERVERS_TOGETHER: Fault = {
  name: `Cassandra node 2 and nats-server 1 together: kill -9, started again after ${DEAD_MS / 1_000} s`,
  strike: (stage) => killFor(DEAD_MS, [stage.nodes.cassandra[1]!, stage.nodes.nats[0]!], stage),
};

const RANGE_LOST: Fault = {
  name: 'Cassandra node 3: kill -9, and with it the only copy of a third of another keyspace',
  strike: assertTheRestGoesOn,
};

const NEW_KEYSPACE: Fault = {
  name: 'R079: six services and six migrators at once on a new keyspace, then each Cassandra node restarted',
  strike: assertOneSchema,
};

const LONG: readonly Fault[] = [
  CALM,
  ...[0, 1, 2].flatMap((index) => serverFaults(`Cassandra node ${index + 1}`, cassandra(index))),
  ...[0, 1, 2].flatMap((index) => serverFaults(`nats-server ${index + 1}`, nats(index))),
  ...[0, 1].flatMap((index) => serviceFaults(`api ${index + 1}`, ({ cluster }) => cluster.apis[index]!)),
  ...[0, 1].flatMap((index) => serviceFaults(`dispatcher ${index + 1}`, ({ cluster }) => cluster.dispatchers[index]!)),
  ...[0, 1].flatMap((index) => serviceFaults(`reaper ${index + 1}`, ({ cluster }) => cluster.reapers[index]!)),
  SERVERS_TOGETHER,
  MACHINE,
  NATS_AWAY,
  STREAM_DELETED,
  RANGE_LOST,
  NEW_KEYSPACE,
];
const SHORT: readonly Fault[] = [SERVERS_TOGETHER];

describe(`a cluster under ${JOBS_PER_S} jobs/s`, () => {
  const cleanup = suiteCleanup();
  const rows: FaultRow[] = [];
  let stage: Stage;

  before(async () => {
    stage = await setStage(cleanup);
  });
  after(() => {
    if (rows.length > 0) console.log(`\n${tableOf(rows)}\n`);
  });

  for (const fault of IS_LONG ? LONG : SHORT) {
    it(`loses nothing and does nothing twice: ${fault.name}`, { timeout: FAULT_LIMIT_MS }, async () => {
      const row = await runFault(stage, fault, JOBS_PER_S);
      rows.push(row);
      // A run that is cut short has told what it had.
      console.log(tableOf([row]));
    });
  }
});
