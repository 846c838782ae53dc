// The arrows between our folders (services/ARCHITECTURE.md): imports point one way, and each driver has one home.

const PURE = ['domain', 'ports', 'contract', 'telemetry'];
const DRIVERS = ['storage', 'bus'];

/** What these folders of core may import besides themselves. */
const CORE_ARROWS = {
  contract: [],
  domain: [],
  ports: ['domain', 'contract'],
  telemetry: ['domain', 'ports', 'contract'],
  runtime: PURE,
  storage: [...PURE, 'runtime'],
  bus: [...PURE, 'runtime'],
  // What all services stand on, put together once: beside their compose.ts the only one that knows the drivers.
  foundation: [...PURE, 'runtime', 'rounds', 'timers', 'moves', 'queues', ...DRIVERS],
};

/** Where the rule for cron and time zones meets cron-parser and luxon. */
const CALENDAR_FILES = '^services/core/domain/(cron-values|zone-reading)\\.ts$';

const core = (folders) => `^services/core/(${folders.join('|')})/`;

module.exports = {
  forbidden: [
    ...Object.entries(CORE_ARROWS).map(([folder, allowed]) => ({
      name: `core-${folder}`,
      severity: 'error',
      from: { path: core([folder]) },
      to: { path: '^(services|scripts|tests)/', pathNot: core([folder, ...allowed]) },
    })),
    {
      name: 'core-coordination',
      comment: 'The other folders of core (rounds, timers, ...) are coordination over ports, and may know each other.',
      severity: 'error',
      from: { path: '^services/core/', pathNot: core(Object.keys(CORE_ARROWS)) },
      to: { path: ['^(scripts|tests)/', '^services/(?!core/)', core([...DRIVERS, 'runtime'])] },
    },
    {
      name: 'services-apart',
      comment: 'Services never import each other: what two of them need is in core.',
      severity: 'error',
      from: { path: '^services/(api|dispatcher|reaper|webhooks|fsck)/' },
      to: { path: '^(services|scripts|tests)/', pathNot: ['^services/$1/', '^services/core/'] },
    },
    {
      name: 'drivers-in-compose',
      comment: 'Only compose.ts knows what stands behind the ports.',
      severity: 'error',
      from: { path: '^services/(api|dispatcher|reaper|webhooks|fsck)/', pathNot: '/compose\\.ts$' },
      to: { path: core(DRIVERS) },
    },
    {
      name: 'client-over-contract',
      comment: 'The client is published: it brings the wire vocabulary and nothing of the server.',
      severity: 'error',
      from: { path: '^services/client/' },
      to: { path: '^(services|scripts|tests)/', pathNot: ['^services/client/', core(['contract'])] },
    },
    {
      name: 'cli-over-client',
      severity: 'error',
      from: { path: '^services/cli/' },
      to: {
        path: '^(services|scripts|tests)/',
        pathNot: ['^services/(cli|client)/', core(['contract', 'domain', 'runtime'])],
      },
    },
    {
      name: 'cli-without-worker',
      comment: 'The command line starts at once: the worker helper would bring the NATS client along.',
      severity: 'error',
      from: { path: '^services/cli/' },
      to: { path: '^services/client/(index|worker|pull|ready-feed)\\.ts$' },
    },
    {
      name: 'pure-folders',
      comment: 'Vocabulary and rules use no library and nothing of Node that does anything; hashing is arithmetic.',
      severity: 'error',
      from: { path: core(['contract', 'domain', 'ports']), pathNot: CALENDAR_FILES },
      to: { dependencyTypes: ['npm', 'npm-dev', 'core'], pathNot: '^(node:)?crypto$' },
    },
    {
      name: 'calendar-libraries-in-their-files',
      comment: 'What cron-parser and luxon must not be asked is in decision 0010.',
      severity: 'error',
      from: { path: '^services/', pathNot: CALENDAR_FILES },
      to: { path: '/node_modules/(cron-parser|luxon)/|^node_modules/(cron-parser|luxon)/' },
    },
    {
      name: 'cassandra-driver-in-storage',
      severity: 'error',
      from: { path: '^services/', pathNot: core(['storage']) },
      to: { path: '/cassandra-driver/' },
    },
    {
      name: 'nats-in-bus-and-client',
      severity: 'error',
      from: { path: '^services/', pathNot: [core(['bus']), '^services/client/'] },
      to: { path: '/@nats-io/' },
    },
    {
      name: 'no-development-packages',
      severity: 'error',
      from: { path: '^services/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'no-cycles',
      comment: 'Types may refer to each other; code that runs may not.',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    { name: 'no-unknown-modules', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    // Imports of types count too: they are arrows all the same.
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
