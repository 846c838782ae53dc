import { StoreError } from '../ports/store-error.ts';
import { READ_SCHEMA_VERSION } from './cql/statements.ts';
import type { Session } from './session.ts';

/** The version of schema/cassandra that this build reads and writes; a newer one is fine, since versions only add. */
export const SCHEMA_VERSION = 2;

/** The stored schema does not fit this build. The message names the command that mends it. */
export class SchemaError extends Error {
  constructor(keyspace: string, fault: string, options?: { cause?: unknown }) {
    super(
      `The keyspace ${keyspace} ${fault}, and this build needs schema version ${SCHEMA_VERSION}. ` +
        `Apply it with: PUNCTUAL_CASSANDRA_KEYSPACE=${keyspace} ./scripts/schema apply`,
      options,
    );
    this.name = 'SchemaError';
  }
}

/** Throws SchemaError when the keyspace's schema is older than this build, StoreError when it cannot be read. */
export async function requireSchema(session: Pick<Session, 'read' | 'keyspace'>): Promise<void> {
  const version = await readSchemaVersion(session);
  if (version < SCHEMA_VERSION) {
    throw new SchemaError(session.keyspace, version === 0 ? 'holds no schema' : `holds schema version ${version}`);
  }
}

/** 0 when no version was applied yet. */
async function readSchemaVersion(session: Pick<Session, 'read'>): Promise<number> {
  try {
    const rows = await session.read({ cql: READ_SCHEMA_VERSION, values: [] });
    return Math.max(0, ...rows.map((row) => Number(row.get('version'))));
  } catch (error) {
    if (error instanceof StoreError && isOfMissingTable(error)) return 0;
    throw error;
  }
}

/**
 * The list of versions comes into being with the first one: no table, no version. Where a table has gone under a statement that
 * was prepared, the driver prepares it again by itself, and tells of it when it cannot.
 */
function isOfMissingTable({ kind, message }: StoreError): boolean {
  return (kind === 'invalid' && /schema_migrations/.test(message)) || /Prepared query .* not found/.test(message);
}
