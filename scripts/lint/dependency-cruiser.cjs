// The arrows between our folders (services/ARCHITECTURE.md): imports point one way, and each driver has one home.

/** What each folder of core may import besides itself. Pure coordination (rounds, timers, ...) speaks to ports only. */
const PURE = ['domain', 'ports', 'contract', 'telemetry'];
const COORDINATION = ['rounds', 'timers', 'scan', 'ownership'];
const CORE_ARROWS = {
  contract: [],
  domain: [],
  ports: ['domain', 'contract'],
  telemetry: ['domain', 'ports', 'contract'],
  runtime: PURE,
  rounds: [...PURE, ...COORDINATION],
  timers: [...PURE, ...COORDINATION],
  scan: [...PURE, ...COORDINATION],
  ownership: [...PURE, ...COORDINATION],
  storage: [...PURE, 'runtime'],
  bus: [...PURE, 'runtime'],
};
const FOR_SERVICES = [...PURE, 'runtime', ...COORDINATION];

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
      name: 'core-folder-without-arrows',
      comment: 'A new folder of core says in CORE_ARROWS what it imports.',
      severity: 'error',
      from: { path: '^services/core/', pathNot: core(Object.keys(CORE_ARROWS)) },
      to: {},
    },
    {
      name: 'services-over-ports',
      comment: 'Services know core by its ports and its pure parts, and never each other.',
      severity: 'error',
      from: { path: '^services/(api|dispatcher|reaper|webhooks)/', pathNot: '/compose\\.ts$' },
      to: { path: '^(services|scripts|tests)/', pathNot: ['^services/$1/', core(FOR_SERVICES)] },
    },
    {
      name: 'compose-names-storage-and-bus',
      severity: 'error',
      from: { path: '^services/(api|dispatcher|reaper|webhooks)/compose\\.ts$' },
      to: { path: '^(services|scripts|tests)/', pathNot: ['^services/$1/', core([...FOR_SERVICES, 'storage', 'bus'])] },
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
      name: 'pure-folders',
      comment: 'Vocabulary and rules use no library and nothing of Node that does anything; hashing is arithmetic.',
      severity: 'error',
      from: { path: core(['contract', 'domain', 'ports']), pathNot: '^services/core/domain/cron-schedule\\.ts$' },
      to: { dependencyTypes: ['npm', 'npm-dev', 'core'], pathNot: '^(node:)?crypto$' },
    },
    {
      name: 'cron-libraries-in-cron-schedule',
      severity: 'error',
      from: { path: '^services/core/domain/cron-schedule\\.ts$' },
      to: {
        dependencyTypes: ['npm', 'npm-dev', 'core'],
        pathNot: ['/(luxon|cron-parser|@types/luxon)/', '^(node:)?crypto$'],
      },
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
