import type { JobRow } from '../domain/job.ts';
import type { ConditionColumns, Operation } from '../domain/operation.ts';
import type { ApplyResultOf, CohortReader, CohortTable } from './cohort-table.ts';

/** The table `jobs`. */
export type CohortStore = CohortTable<Operation, ConditionColumns>;
export type JobReader = CohortReader<JobRow>;

/** What a claim asks of a job, and what its worker is told: a third of the row's columns, at less than half the cost. */
export type JobTerms = Pick<
  JobRow,
  | 'jobId'
  | 'queue'
  | 'priority'
  | 'payload'
  | 'payloadBytes'
  | 'labels'
  | 'idempotencyKey'
  | 'runAt'
  | 'scheduledFor'
  | 'shard'
  | 'status'
  | 'attempt'
  | 'maxAttempts'
  | 'timeoutS'
  | 'leaseS'
  | 'traceparent'
  | 'expiresAt'
  | 'enqueuedAt'
  | 'onOverlap'
>;

/** What the history keeps of a job once it is over: a fifth of the row's columns, and no payload. */
export type JobEnd = Pick<
  JobRow,
  | 'jobId'
  | 'queue'
  | 'priority'
  | 'status'
  | 'attempt'
  | 'runAt'
  | 'scheduledFor'
  | 'finishedAt'
  | 'waitsFor'
  | 'starts'
  | 'ends'
>;

export interface EndsReader {
  /** Of jobs that are over or not, as JobReader.read at LOCAL_QUORUM. Throws StoreError. */
  readEnds(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobEnd>>;
}

export interface TermsReader {
  /** As JobReader.read, at LOCAL_QUORUM. Throws StoreError. */
  readTerms(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobTerms>>;
}
/** Where a job stands, to be counted and swept by: a tenth of the row's columns. */
export type JobState = Pick<JobRow, 'jobId' | 'queue' | 'priority' | 'status' | 'runAt' | 'finishedAt' | 'waitsFor'>;

export interface StateReader {
  /** As JobReader.read, at LOCAL_QUORUM. Throws StoreError. */
  readStates(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobState>>;
}
export type ApplyResult = ApplyResultOf<ConditionColumns>;
