// A service with nothing to do but what every service does: tests watch how its process starts and ends.

import { runService } from '../../services/core/runtime/run-service.ts';

await runService('reaper', async ({ onStop, addReadyCheck, clock, stopping, log }) => {
  const behaviour = process.env['PUNCTUAL_TEST_BEHAVIOUR'];
  onStop('first part', async () => log.info('first part stopped'));
  if (behaviour === 'fails') throw new Error('the schema is too old', { cause: new Error('version 0') });
  if (behaviour === 'dials') {
    while (!stopping.aborted) await clock.sleep(60_000, stopping);
    throw new Error('gave up dialling');
  }
  if (behaviour === 'rejects') void Promise.reject(new Error('nobody waits for this'));
  addReadyCheck({ name: 'nats', required: false, problem: () => 'no connection' });
  onStop('last part', async () => {
    if (behaviour === 'hangs') await new Promise(() => undefined);
    log.info('last part stopped');
  });
  return { schemaVersion: '7' };
});
