// A job as a caller asks for it, to be changed where a test cares.

import type { CreateJob } from '../../services/api/use-cases/types.ts';

export function createJobRequest(changes: Partial<CreateJob> = {}): CreateJob {
  return {
    owner: 'default',
    idempotencyKey: null,
    requestHash: 'hash',
    queue: 'mail',
    priority: 'normal',
    payload: null,
    payloadBytes: 0,
    when: { delayMs: 0 },
    jitterMs: 0,
    maxAttempts: 5,
    timeoutS: 60,
    leaseS: 30,
    retry: { kind: 'exponential', baseS: 1, factor: 2, capS: 3_600, jitter: 'equal' },
    labels: {},
    expiresAt: null,
    scheduleId: null,
    traceparent: null,
    ...changes,
  };
}
