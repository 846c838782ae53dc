import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { HeldReport, HeldReports } from '../../services/core/ports/held-reports.ts';

/** Two processes' view of the same bus. */
export interface HeldReportsHarness {
  readonly ours: HeldReports;
  readonly theirs: HeldReports;
  /** Until what was sent has arrived. */
  readonly arrived: () => Promise<void>;
}

const REPORT: HeldReport = {
  member: 'dispatcher-1',
  shards: 32,
  held: [
    { queue: 'mail', priority: 'normal', count: 1_200, oldestAt: Date.parse('2026-11-29T10:00:00.123Z') },
    { queue: 'mail', priority: 'low', count: 3, oldestAt: Date.parse('2026-11-29T10:00:01Z') },
  ],
};

/** What every HeldReports promises; run on the fake and on a real server. */
export function heldReportsSuite(start: () => Promise<HeldReportsHarness>): void {
  it('brings each report to all who listen, also to whoever sent it', async () => {
    const { ours, theirs, arrived } = await start();
    const heard: [string, HeldReport][] = [];
    const stop = ours.listen((report) => heard.push(['ours', report]));
    theirs.listen((report) => heard.push(['theirs', report]));
    await arrived();
    ours.send(REPORT);
    await arrived();
    assert.deepEqual(
      new Map(heard),
      new Map([
        ['ours', REPORT],
        ['theirs', REPORT],
      ]),
    );
    stop();
    theirs.send({ ...REPORT, held: [] });
    await arrived();
    assert.deepEqual(heard.slice(2), [['theirs', { ...REPORT, held: [] }]]);
  });
}
