// Bulk operations to test with.

import { randomBytes } from 'node:crypto';
import type { BulkOperation } from '../../services/core/domain/bulk.ts';
import { COHORT_ENTROPY_BYTES, operationId } from '../../services/core/domain/ids.ts';
import { DAY_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from './fake-clock.ts';

/** One that has just been started: a replay of a day's dead letters. */
export function bulkOperation(overrides: Partial<BulkOperation> = {}): BulkOperation {
  return {
    operationId: operationId(randomBytes(COHORT_ENTROPY_BYTES)),
    owner: 'default',
    verb: 'replay',
    filter: {
      queue: 'mail',
      from: FAKE_START - DAY_MS,
      to: FAKE_START,
      status: null,
      label: null,
      error: null,
    },
    newTime: null,
    replayChanges: null,
    ratePerS: 100,
    status: 'running',
    position: null,
    changed: 0,
    failed: 0,
    lastError: null,
    runner: null,
    revision: 0,
    createdAt: FAKE_START,
    updatedAt: FAKE_START,
    finishedAt: null,
    expiresAt: FAKE_START + 30 * DAY_MS,
    ...overrides,
  };
}
