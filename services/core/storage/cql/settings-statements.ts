import type { Bound } from '../statement.ts';

// `settings`: LWT only (session.conditional), read at LOCAL_SERIAL, so that two processes that seed at once agree.

const SEED_SETTING = `INSERT INTO settings (name, value) VALUES (?, ?) IF NOT EXISTS`;

const READ_SETTING = `SELECT value FROM settings WHERE name = ?`;

export const SETTINGS_STATEMENTS: readonly string[] = [SEED_SETTING, READ_SETTING];

export function seedSetting(name: string, value: string): Bound {
  return { cql: SEED_SETTING, values: [name, value] };
}

export function readSetting(name: string): Bound {
  return { cql: READ_SETTING, values: [name] };
}
