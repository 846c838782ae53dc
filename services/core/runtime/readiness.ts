import type { Clock } from '../ports/clock.ts';
import { errorText } from './error-fields.ts';

/** One thing that a service needs, or only wants. */
export interface ReadyCheck {
  readonly name: string;
  /** Whether the service is unready without it. The api, for one, accepts jobs without NATS. */
  readonly required: boolean;
  /** Null when all is well, else what is wrong. A check that throws or takes longer than CHECK_TIMEOUT_MS has failed. */
  problem(): Promise<string | null> | string | null;
}

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly required: boolean;
  readonly detail: string;
}

export interface Readiness {
  readonly ready: boolean;
  readonly checks: readonly CheckResult[];
}

const CHECK_TIMEOUT_MS = 2_000;

export async function readinessOf(checks: readonly ReadyCheck[], clock: Clock): Promise<Readiness> {
  const results = await Promise.all(checks.map((check) => resultOf(check, clock)));
  return { ready: results.every(({ ok, required }) => ok || !required), checks: results };
}

async function resultOf(check: ReadyCheck, clock: Clock): Promise<CheckResult> {
  const { name, required } = check;
  const problem = await problemOf(check, clock);
  return { name, ok: problem === null, required, detail: problem ?? 'ok' };
}

async function problemOf(check: ReadyCheck, clock: Clock): Promise<string | null> {
  const answered = new AbortController();
  const late = clock.sleep(CHECK_TIMEOUT_MS, answered.signal).then(() => `no answer within ${CHECK_TIMEOUT_MS} ms`);
  try {
    return await Promise.race([check.problem(), late]);
  } catch (error) {
    return errorText(error);
  } finally {
    answered.abort();
  }
}
