import type { EpochMs } from '../domain/time.ts';

/** A server whose wall clock can be asked. */
export interface ClockSource {
  /** Unique among the sources; a metric label. */
  readonly name: string;
  /** The server's wall clock as it answers. Rejects when it gives no answer. */
  now(): Promise<EpochMs>;
}
