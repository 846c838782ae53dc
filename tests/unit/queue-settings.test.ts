import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  burstOf,
  defaultSettings,
  isPaused,
  rateAt,
  readyAheadOf,
  readyKeptOf,
  readyMaxOf,
  retentionOf,
  type QueueSettings,
} from '../../services/core/domain/queue-settings.ts';
import { READY_MAX_DEFAULT, SECOND_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';

const NOW = FAKE_START;

function settings(overrides: Partial<QueueSettings> = {}): QueueSettings {
  return { ...defaultSettings('mail'), ...overrides };
}

describe('the settings of a queue', () => {
  it('limit nothing by default but what waits for a claim', () => {
    assert.equal(rateAt(settings(), NOW), null);
    assert.equal(isPaused(settings(), NOW), false);
    assert.equal(readyMaxOf(settings()), READY_MAX_DEFAULT);
  });

  it('keep what has ended by default, and as long as they say, each kind by itself', () => {
    assert.deepEqual(retentionOf(settings()), { finishedDays: 7, deadDays: 30 });
    assert.deepEqual(retentionOf(settings({ retentionDays: 2 })), { finishedDays: 2, deadDays: 30 });
    assert.deepEqual(retentionOf(settings({ deadRetentionDays: 3 })), { finishedDays: 7, deadDays: 3 });
  });

  it('allow one second of the rate at once, and never less than one job', () => {
    assert.equal(burstOf(settings({ ratePerS: 50 })), 50);
    assert.equal(burstOf(settings({ ratePerS: 0.1 })), 1);
    assert.equal(burstOf(settings({ ratePerS: 50, burst: 5 })), 5);
  });

  it('let so much of a rate wait for workers, or a whole burst, and claims leave some more than twice of it alone', () => {
    const both = (overrides: Partial<QueueSettings>) => {
      const of = settings(overrides);
      return [readyAheadOf(of), readyKeptOf(of)];
    };
    assert.deepEqual(both({}), [null, null]);
    assert.deepEqual(both({ ratePerS: 20 }), [60, 130]);
    assert.deepEqual(both({ ratePerS: 20, burst: 100 }), [100, 210]);
    assert.deepEqual(both({ ratePerS: 0.1 }), [1, 12]);
  });

  it('pause until somebody resumes, or until the time that was set', () => {
    const pause = { at: NOW - SECOND_MS, reason: null };
    assert.equal(rateAt(settings({ ratePerS: 50, pause: { ...pause, until: null } }), NOW), 0);
    assert.equal(rateAt(settings({ pause: { ...pause, until: NOW + 1 } }), NOW), 0);
    assert.equal(rateAt(settings({ ratePerS: 50, pause: { ...pause, until: NOW } }), NOW), 50);
    assert.equal(isPaused(settings({ pause: { ...pause, until: NOW } }), NOW), false);
  });

  it('let the rate grow after a resume, from a tenth on, whether somebody resumed it or the pause ended by itself', () => {
    const ways = [{ resumedAt: NOW }, { pause: { at: NOW - 1, reason: null, until: NOW } }];
    for (const way of ways) {
      const ramped = settings({ ratePerS: 100, rampS: 60, ...way });
      const rates = [0, 3, 30, 60, 3_600].map((s) => rateAt(ramped, NOW + s * SECOND_MS));
      assert.deepEqual(rates, [10, 10, 50, 100, 100]);
    }
    assert.equal(rateAt(settings({ ratePerS: 100, rampS: 60 }), NOW), 100);
  });
});
