// Prints the handed-over cron cases with the slots that this process works out: see tests/unit/cron-host-zone.test.ts.

import { readFileSync } from 'node:fs';
import { cronOf, slotsAfter } from './cron.ts';

interface Case {
  readonly cron: string;
  readonly time_zone: string;
  readonly after: string;
}

const cases = JSON.parse(readFileSync(new URL('cron-cases.json', import.meta.url), 'utf8')) as readonly Case[];
const midnight = new Date(2026, 2, 8).toISOString();
const slots = cases.map(({ cron, time_zone: timeZone, after }) => slotsAfter(cronOf(cron, { timeZone }), after, 400));
process.stdout.write(JSON.stringify({ midnight, slots }));
