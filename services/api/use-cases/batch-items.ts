import { createHash } from 'node:crypto';
import {
  COHORT_ENTROPY_BYTES,
  cohortOf,
  isScheduleId,
  jobCohort,
  memberId,
  scheduleCohort,
} from '../../core/domain/ids.ts';
import { COHORT_SIZE } from '../../core/domain/limits.ts';
import type { Random } from '../../core/ports/random.ts';

/** The id of a keyed batch's item 0, which is also the seed of all its items' ids: what the batch's key keeps. */
export function batchSeedId(random: Random): string {
  return memberId(jobCohort(random.bytes(COHORT_ENTROPY_BYTES)), 0);
}

/** As batchSeedId, of a batch of schedules. */
export function scheduleBatchSeedId(random: Random): string {
  return memberId(scheduleCohort(random.bytes(COHORT_ENTROPY_BYTES)), 0);
}

/** The id of item i (from 0): cohort and member follow from the seed and i alone, so that a repeated call is exact. */
export function batchItemId(seedId: string, index: number): string {
  const block = Math.floor(index / COHORT_SIZE);
  const seed = cohortOf(seedId);
  return memberId(block === 0 ? seed : cohortOfBlock(seedId, `${seed} ${block}`), index % COHORT_SIZE);
}

function cohortOfBlock(seedId: string, text: string): string {
  const entropy = createHash('sha256').update(text).digest();
  return isScheduleId(seedId) ? scheduleCohort(entropy) : jobCohort(entropy);
}
