import { hash } from 'node:crypto';
import { SECOND_MS } from './limits.ts';
import type { EpochMs } from './time.ts';

/**
 * Ids say where a row lives (design section 4), lower-case Crockford base32:
 *
 *     job          j_<cohort>_<member>              partition  j_<cohort>
 *     schedule     s_<cohort>_<member>              partition  s_<cohort>
 *     occurrence   s_<cohort>_<member>@<slot>       partition  s_<cohort>@<slot>
 *     operation    o_<13 characters>                partition  its id
 *
 * <cohort> is 65 random bits in 13 characters, <member> two characters for 0..63.
 */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const COHORT_CHARS = 13;
const MEMBERS_MAX = 64;
/** The form that hot paths meet; its partition is the part before the member. */
const JOB_ID = /^j_[0-9a-hjkmnp-tv-z]{13}_[01][0-9a-hjkmnp-tv-z]$/;
const JOB_COHORT_CHARS = 2 + COHORT_CHARS;
const ID = /^([js])_([0-9a-hjkmnp-tv-z]{13})_([01][0-9a-hjkmnp-tv-z])(?:@(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z))?$/;

const OPERATION_ID = /^o_[0-9a-hjkmnp-tv-z]{13}$/;

/** Bytes of chance that one cohort needs. */
export const COHORT_ENTROPY_BYTES = COHORT_CHARS;

/** A new job cohort's partition text from COHORT_ENTROPY_BYTES random bytes (5 bits of each are used). */
export function jobCohort(entropy: Uint8Array): string {
  return `j_${base32(entropy)}`;
}

/** A new schedule cohort's partition text, from as many random bytes. */
export function scheduleCohort(entropy: Uint8Array): string {
  return `s_${base32(entropy)}`;
}

/** The id of a member (0..63) of a job or schedule cohort. Throws RangeError outside of that: a member number is never reused. */
export function memberId(cohort: string, member: number): string {
  if (!Number.isInteger(member) || member < 0 || member >= MEMBERS_MAX) {
    throw new RangeError(`member must be 0..${MEMBERS_MAX - 1}, got ${member}`);
  }
  return `${cohort}_${character(member >> 5)}${character(member & 31)}`;
}

/** The partition a job, schedule or occurrence id lives in: string work only. Throws RangeError on anything else. */
export function cohortOf(id: string): string {
  if (JOB_ID.test(id)) return id.slice(0, JOB_COHORT_CHARS);
  const parts = partsOf(id);
  if (parts === null) throw new RangeError(`not a job, schedule or occurrence id: ${id}`);
  const { kind, cohort, slot } = parts;
  return slot === undefined ? `${kind}_${cohort}` : `${kind}_${cohort}@${slot}`;
}

/** Which member of its cohort (0..63) a job, schedule or occurrence is. Throws RangeError on anything else. */
export function memberOf(id: string): number {
  const member = JOB_ID.test(id) ? id.slice(-2) : partsOf(id)?.member;
  if (member === undefined) throw new RangeError(`not a job, schedule or occurrence id: ${id}`);
  return (ALPHABET.indexOf(member.charAt(0)) << 5) | ALPHABET.indexOf(member.charAt(1));
}

/** Whether the text is the id of a job or of an occurrence, the two that have a row in `jobs`. */
export function isJobId(text: string): boolean {
  if (JOB_ID.test(text)) return true;
  const parts = partsOf(text);
  return parts !== null && (parts.kind === 'j' || parts.slot !== undefined);
}

/** Whether the text is the id of a schedule, which has a row in `schedules`. */
export function isScheduleId(text: string): boolean {
  const parts = partsOf(text);
  return parts?.kind === 's' && parts.slot === undefined;
}

/** The id of a schedule's occurrence. Throws RangeError unless the slot is a whole second between the years 0 and 9999. */
export function occurrenceId(scheduleId: string, slot: EpochMs): string {
  const iso = new Date(slot).toISOString();
  if (slot % SECOND_MS !== 0 || iso.length !== 24) throw new RangeError(`not a slot: ${slot}`);
  return `${scheduleId}@${iso.slice(0, 19)}Z`;
}

/** Whose occurrence the id names, and of which slot; null for any other text. */
export function occurrenceOf(text: string): { readonly scheduleId: string; readonly slot: EpochMs } | null {
  const parts = partsOf(text);
  if (parts?.slot === undefined) return null;
  return { scheduleId: text.slice(0, text.indexOf('@')), slot: Date.parse(parts.slot) };
}

/** The id of a bulk operation from as many random bytes as a cohort needs. */
export function operationId(entropy: Uint8Array): string {
  return `o_${base32(entropy)}`;
}

/** Operations have timers beside those of jobs: in `deadlines` stand ids of both. */
export function isOperationId(text: string): boolean {
  return OPERATION_ID.test(text);
}

/** The shard that scans a partition's timers: first 4 bytes of SHA-256 of the partition text, modulo the shard count. */
export function shardOf(cohort: string, shards: number): number {
  return Number.parseInt(hash('sha256', cohort, 'hex').slice(0, 8), 16) % shards;
}

interface IdParts {
  readonly kind: string;
  readonly cohort: string;
  readonly member: string;
  readonly slot: string | undefined;
}

/** Null when the text is no id; only a schedule's id takes a slot. */
function partsOf(text: string): IdParts | null {
  const [, kind = '', cohort = '', member = '', slot] = ID.exec(text) ?? [];
  return kind === '' || (kind === 'j' && slot !== undefined) ? null : { kind, cohort, member, slot };
}

function base32(entropy: Uint8Array): string {
  if (entropy.length < COHORT_CHARS) throw new RangeError(`a cohort needs ${COHORT_CHARS} random bytes`);
  let text = '';
  for (const byte of entropy.subarray(0, COHORT_CHARS)) text += character(byte & 31);
  return text;
}

function character(value: number): string {
  return ALPHABET.charAt(value);
}
