/** Chance as a port. */
export interface Random {
  bytes(count: number): Uint8Array;
  /** Evenly in [0, 1). */
  fraction(): number;
  /** A fresh token (a UUID), for marks of our own in rows. */
  token(): string;
}
