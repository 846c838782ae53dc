import type { SettingsStore } from '../ports/settings-store.ts';
import { readSetting, seedSetting } from './cql/settings-statements.ts';
import { text } from './row-codec.ts';
import type { Session } from './session.ts';

export function createSettingsStore(session: Session): SettingsStore {
  return {
    async readOrSeed(name, seed) {
      // Nearly always it is there; a read costs one round trip and no Paxos write.
      const [stored] = await session.read(readSetting(name), { serial: true });
      if (stored !== undefined) return text(stored, 'value');
      const rows = await session.conditional([seedSetting(name, seed)]);
      return rows?.[0] === undefined ? seed : text(rows[0], 'value');
    },
  };
}
