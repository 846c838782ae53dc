// Names on the bus: what every client and server of NATS takes.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BusNames } from '../../services/core/bus/names.ts';
import { ShardOwner } from '../../services/core/ownership/shard-owner.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { silentLog, silentTelemetry } from '../support/silent-telemetry.ts';

/** What all clients allow in a key, without a dot at its ends. */
const KEY = /^[-/=\w](?:[-/=.\w]*[-/=\w])?$/;

describe('R070 a key of the lease and member buckets', () => {
  it('is made of characters that every client takes, whatever the process is called', () => {
    const names = new BusNames('site_');
    const clock = new FakeClock();
    for (const name of ['shard:7', 'job+1', '.x', 'x.', 'host.example.org', 'ä b', '~']) {
      const { memberId } = new ShardOwner(
        {
          ...{ role: 'dispatcher', scanShards: 64, name, renewEveryMs: 1_500 },
          ...{ onAcquired: () => undefined, onLost: () => undefined },
        },
        {
          ...{ leases: new MemoryBus({ clock }).connect().leases, clock, random: systemRandom },
          ...{ telemetry: silentTelemetry, log: silentLog },
        },
      );
      const [, , ...key] = names.keySubject('members', 'dispatcher', memberId).split('.');
      assert.match(key.join('.'), KEY);
    }
    const [, , ...key] = names.keySubject('leases', 'reaper', 63).split('.');
    assert.match(key.join('.'), KEY);
  });
});
