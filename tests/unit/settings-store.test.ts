import assert from 'node:assert/strict';
import { it } from 'node:test';
import { StoreError } from '../../services/core/ports/store-error.ts';
import { createSettingsStore } from '../../services/core/storage/settings-store.ts';
import type { Row } from '../../services/core/storage/statement.ts';

it('a setting that others seed at the same moment is theirs, though our own try had no answer', async () => {
  const stored: string[] = [];
  const store = createSettingsStore({
    read: () => Promise.resolve(stored.map((value) => ({ get: () => value }) as unknown as Row)),
    conditional: () => {
      stored.push('theirs');
      return Promise.reject(new StoreError('unknown', 'timed out'));
    },
  });
  assert.equal(await store.readOrSeed('write_shards', 'ours'), 'theirs');
});

it('a setting that could not be seeded is an error', async () => {
  const store = createSettingsStore({
    read: () => Promise.resolve([]),
    conditional: () => Promise.reject(new StoreError('unknown', 'timed out')),
  });
  await assert.rejects(store.readOrSeed('write_shards', 'ours'), { kind: 'unknown' });
});
