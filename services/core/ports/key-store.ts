import type { EpochMs } from '../domain/time.ts';

/** A row of job_keys: which job an idempotency key stands for. */
export interface JobKey {
  /** SHA-256 hex of owner, route and key. */
  readonly keyHash: string;
  readonly jobId: string;
  readonly requestHash: string;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
  /** Set after the job's round and before the 201: until then whoever finds the key makes sure that the job exists. */
  readonly written: boolean;
}

/** Conditional writes only. All methods throw StoreError. */
export interface KeyStore {
  /** Writes the key unless it exists, and returns the row that stands: ours (same jobId) or an earlier one. */
  claim(key: JobKey): Promise<JobKey>;
  find(keyHash: string): Promise<JobKey | null>;
  /** Takes the whole key: the write must vanish together with the row, at expiresAt. */
  markWritten(key: JobKey): Promise<void>;
}
