import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createLog } from '../../services/core/telemetry/json-log.ts';
import { createTelemetry, QUEUE_LABELS_MAX } from '../../services/core/telemetry/prometheus-telemetry.ts';

describe('the metrics', () => {
  it('are counters, histograms and gauges in the text format, without labels of the exporter', async () => {
    const telemetry = createTelemetry();
    telemetry.count('punctual_attempts_total', { queue: 'mails', outcome: 'succeeded' });
    telemetry.count('punctual_attempts_total', { queue: 'mails', outcome: 'succeeded' }, 2);
    telemetry.observe('punctual_start_lag_seconds', 0.2, { queue: 'mails', priority: 'high' });
    telemetry.gauge('punctual_shards_owned', 7, { role: 'reaper' });
    const lines = (await telemetry.render()).split('\n');
    for (const line of [
      '# TYPE punctual_attempts_total counter',
      'punctual_attempts_total{queue="mails",outcome="succeeded"} 3',
      '# TYPE punctual_start_lag_seconds histogram',
      'punctual_start_lag_seconds_bucket{queue="mails",priority="high",le="0.1"} 0',
      'punctual_start_lag_seconds_bucket{queue="mails",priority="high",le="0.25"} 1',
      'punctual_start_lag_seconds_bucket{queue="mails",priority="high",le="+Inf"} 1',
      'punctual_start_lag_seconds_count{queue="mails",priority="high"} 1',
      'punctual_shards_owned{role="reaper"} 7',
    ]) {
      assert.ok(lines.includes(line), `${line} is missing in\n${lines.join('\n')}`);
    }
  });

  it('bucket the start lag as the alerts expect', async () => {
    const telemetry = createTelemetry();
    telemetry.observe('punctual_start_lag_seconds', 1, { queue: 'mails', priority: 'normal' });
    const bounds = [...(await telemetry.render()).matchAll(/le="([^"]+)"/g)].map(([, bound]) => bound);
    assert.deepEqual(bounds, ['0.05', '0.1', '0.25', '0.5', '1', '2', '5', '10', '30', '60', '300', '+Inf']);
  });

  it(`let queues beyond ${QUEUE_LABELS_MAX} share one label`, async () => {
    const telemetry = createTelemetry();
    for (let number = 0; number < QUEUE_LABELS_MAX + 20; number += 1) {
      telemetry.count('punctual_lease_expiries_total', { queue: `q${number}` });
    }
    telemetry.count('punctual_lease_expiries_total', { queue: 'q3' });
    const text = await telemetry.render();
    assert.equal(text.match(/^punctual_lease_expiries_total\{/gm)?.length, QUEUE_LABELS_MAX + 1);
    assert.match(text, /punctual_lease_expiries_total\{queue="other"\} 20/);
    assert.match(text, /punctual_lease_expiries_total\{queue="q3"\} 2/);
  });

  it('keep all series of 500 queues with seven outcomes each', async () => {
    const telemetry = createTelemetry();
    for (let number = 0; number < QUEUE_LABELS_MAX; number += 1) {
      for (const outcome of [
        'succeeded',
        'failed',
        'lease_expired',
        'timed_out',
        'snoozed',
        'released',
        'cancelled',
      ] as const) {
        telemetry.count('punctual_attempts_total', { queue: `q${number}`, outcome });
      }
    }
    const text = await telemetry.render();
    assert.equal(text.match(/^punctual_attempts_total\{queue="q/gm)?.length, QUEUE_LABELS_MAX * 7);
    assert.doesNotMatch(text, /overflow/);
  });

  it('forget a gauge that was dropped', async () => {
    const telemetry = createTelemetry();
    telemetry.gauge('punctual_oldest_due_age_seconds', 3, { shard: '1' });
    telemetry.gauge('punctual_oldest_due_age_seconds', 4, { shard: '2' });
    await telemetry.render();
    telemetry.dropGauge('punctual_oldest_due_age_seconds', { shard: '1' });
    const text = await telemetry.render();
    assert.doesNotMatch(text, /shard="1"/);
    assert.match(text, /punctual_oldest_due_age_seconds\{shard="2"\} 4/);
  });

  it('ask for a gauge of the process when they are rendered', async () => {
    const telemetry = createTelemetry();
    let reads = 0;
    telemetry.onCollect('punctual_build_info', () => [{ labels: { version: '1' }, value: (reads += 1) }]);
    assert.match(await telemetry.render(), /punctual_build_info\{version="1"\} 1/);
    assert.match(await telemetry.render(), /punctual_build_info\{version="1"\} 2/);
  });
});

describe('the log', () => {
  it('is one JSON object a line, from the level on that is asked for', () => {
    const lines: string[] = [];
    const log = createLog({
      service: 'api',
      memberId: 'api-1',
      level: 'info',
      stream: { write: (line) => void lines.push(line) },
    });
    log.debug('not this');
    log.info('listening', { url: 'http://127.0.0.1:7400' });
    log.error('broken', { job_id: 'j_0123456789abc_00' });
    const [first, second, ...others] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.equal(others.length, 0);
    assert.partialDeepStrictEqual(first, {
      level: 'info',
      service: 'api',
      member: 'api-1',
      message: 'listening',
      url: 'http://127.0.0.1:7400',
    });
    assert.match(String(first?.['time']), /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
    assert.partialDeepStrictEqual(second, { level: 'error', job_id: 'j_0123456789abc_00' });
  });

  it('takes fields that JSON cannot express', () => {
    const lines: string[] = [];
    const stream = { write: (line: string) => void lines.push(line) };
    const log = createLog({ service: 'api', memberId: 'api-1', level: 'info', stream });
    const circular: Record<string, unknown> = { big: 2n };
    circular['self'] = circular;
    log.info('odd', { circular });
    assert.equal((JSON.parse(lines[0] ?? '') as { message: string }).message, 'odd');
  });
});
