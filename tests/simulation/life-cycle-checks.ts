// What every single change of a job's row must respect, whoever made it.

import type { AttemptEnd, AttemptStart, JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import { TRANSITIONS } from '../../services/core/domain/life-cycle.ts';
import { ATTEMPTS_KEPT, CLOCK_SKEW_STOP_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { Report } from './violation.ts';

/** A process acts by a clock that is off by less than CLOCK_SKEW_STOP_MS; measuring it takes a moment. */
const EARLY_MAX_MS = CLOCK_SKEW_STOP_MS + SECOND_MS;

const ALLOWED = new Set(TRANSITIONS.flatMap(({ from, to }) => (to === null ? [] : [edge(from, to)])));

/** @param now the true time. */
export function checkChange(before: JobRow | undefined, after: JobRow, now: EpochMs, report: Report): void {
  const broken = (rule: string, detail: string): void => {
    report({ rule, detail: `${after.jobId}: ${detail}`, subject: after.jobId });
  };
  const from = before?.status ?? null;
  if (!ALLOWED.has(edge(from, after.status)) && !isNotRun(before, after))
    broken('transition outside the table', edge(from, after.status));
  if (before === undefined) {
    if (after.attempt !== 0 || after.starts.size > 0) broken('born with a history', `attempt ${after.attempt}`);
    if (after.status === JobStatus.enqueued && isEarly(after, now)) broken('early start', startText(after, now));
    return;
  }
  if (before.status === JobStatus.succeeded || before.status === JobStatus.cancelled) {
    broken('change after the end', edge(from, after.status));
  }
  checkAttempt(before, after, broken);
  checkHistory(before, after, broken);
  if (before.status === JobStatus.scheduled && after.status === JobStatus.enqueued && isEarly(before, now)) {
    broken('early start', startText(before, now));
  }
  if (before.cancelRequested && !after.cancelRequested) broken('a request to cancel was forgotten', from ?? '');
  const mayGoOn = after.status === JobStatus.scheduled || after.status === JobStatus.enqueued;
  if (before.status === JobStatus.running && before.cancelRequested && mayGoOn) {
    broken('a job asked to cancel goes on', edge(from, after.status));
  }
  const isClaim = before.status === JobStatus.enqueued && after.status === JobStatus.running;
  // The round of a claim made in time may land later.
  const claimedAt = after.starts.get(after.attempt)?.startedAt ?? now;
  if (isClaim && before.expiresAt !== null && before.expiresAt + EARLY_MAX_MS < claimedAt) {
    broken('started after expires_at', `at ${claimedAt}, expired at ${before.expiresAt}`);
  }
  if (after.tries > after.maxAttempts) broken('more tries than max_attempts', `${after.tries} of ${after.maxAttempts}`);
}

type Broken = (rule: string, detail: string) => void;

function checkAttempt(before: JobRow, after: JobRow, broken: Broken): void {
  const isClaim = before.status !== JobStatus.running && after.status === JobStatus.running;
  const expected = isClaim ? before.attempt + 1 : before.attempt;
  if (after.attempt !== expected) {
    broken('the attempt moved wrongly', `from ${before.attempt} to ${after.attempt} in ${after.status}`);
  }
}

/** The history is written with the status, entry by entry, and never rewritten. */
function checkHistory(before: JobRow, after: JobRow, broken: Broken): void {
  const began = before.status !== JobStatus.running && after.status === JobStatus.running;
  const ended = before.status === JobStatus.running && after.status !== JobStatus.running;
  checkEntries('starts', before.starts, after.starts, began ? after.attempt : null, broken);
  checkEntries('ends', before.ends, after.ends, ended ? before.attempt : null, broken);
  const lacksEnd = after.status !== JobStatus.running && after.attempt > 0 && !after.ends.has(after.attempt);
  if (lacksEnd) broken('history against status', `attempt ${after.attempt} has no end in ${after.status}`);
  if (after.status === JobStatus.running && after.ends.has(after.attempt)) {
    broken('history against status', `attempt ${after.attempt} has ended and runs`);
  }
  if (isTerminal(after.status) && after.finishedAt === null) broken('history against status', 'no finished_at');
}

function checkEntries<Entry extends AttemptStart | AttemptEnd>(
  name: string,
  before: ReadonlyMap<number, Entry>,
  after: ReadonlyMap<number, Entry>,
  added: number | null,
  broken: Broken,
): void {
  for (const [attempt, entry] of before) {
    const now = after.get(attempt);
    const isForgotten = now === undefined && after.size >= ATTEMPTS_KEPT - 1;
    if (now !== entry && !isForgotten) broken('history rewritten', `${name}[${attempt}]`);
  }
  for (const attempt of after.keys()) {
    if (!before.has(attempt) && attempt !== added) broken('history of another attempt', `${name}[${attempt}]`);
  }
  if (added !== null && !after.has(added)) broken('history against status', `${name}[${added}] is missing`);
}

/** The row of a slot that was not run ends as it begins. */
function isNotRun(before: JobRow | undefined, after: JobRow): boolean {
  return before === undefined && after.slotUntil !== null && after.status === JobStatus.cancelled;
}

function isEarly(job: JobRow, now: EpochMs): boolean {
  return job.runAt > now + EARLY_MAX_MS;
}

function startText(job: JobRow, now: EpochMs): string {
  return `enqueued ${Math.round(job.runAt - now)} ms before its run_at`;
}

function edge(from: JobStatus | null, to: JobStatus): string {
  return `${from ?? 'nothing'} -> ${to}`;
}
