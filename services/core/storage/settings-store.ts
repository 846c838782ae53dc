import type { SettingsStore } from '../ports/settings-store.ts';
import { readSetting, seedSetting } from './cql/settings-statements.ts';
import { text } from './row-codec.ts';
import type { Session } from './session.ts';

export function createSettingsStore(session: Pick<Session, 'read' | 'conditional'>): SettingsStore {
  const read = async (name: string): Promise<string | null> => {
    const [stored] = await session.read(readSetting(name), { serial: true });
    return stored === undefined ? null : text(stored, 'value');
  };
  return {
    read,
    async readOrSeed(name, seed) {
      // Nearly always it is there; a read costs one round trip and no Paxos write.
      const stored = await read(name);
      if (stored !== null) return stored;
      try {
        const rows = await session.conditional([seedSetting(name, seed)]);
        return rows?.[0] === undefined ? seed : text(rows[0], 'value');
      } catch (error) {
        // A cluster's first processes all seed it at once, and may make each other's rounds time out.
        const standing = await read(name);
        if (standing === null) throw error;
        return standing;
      }
    },
  };
}
