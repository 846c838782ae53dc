import { type ClockVerdict, judgeClock, type Skew, skewOf, steppedMs } from '../domain/clock-skew.ts';
import { CLOCK_CHECK_EVERY_MS, SECOND_MS } from '../domain/limits.ts';
import type { Moment } from '../domain/time.ts';
import type { ClockSource } from '../ports/clock-source.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import { startLoop, type Loop } from './loop.ts';

export interface ClockGuardParts {
  /** The servers that can be asked at the moment. */
  readonly sources: () => readonly ClockSource[];
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

interface Measured {
  readonly skews: readonly Skew[];
  /** When the first was asked. */
  readonly at: Moment;
}

/**
 * Compares this process's wall clock with the servers': one that is far off starts jobs early, or closes minutes that are not
 * over. In between, a step shows as the wall clock moving against the monotonic one, and counts at once.
 */
export class ClockGuard {
  readonly #parts: ClockGuardParts;
  #measured: Measured | null = null;
  #said: ClockVerdict = 'good';
  #loop: Loop | undefined;
  #isWoken = false;

  constructor(parts: ClockGuardParts) {
    this.#parts = parts;
  }

  /** Resolves after the first comparison: until then the clock is not trusted. */
  async start(): Promise<void> {
    const { clock, random, log } = this.#parts;
    await this.check();
    this.#loop = startLoop({
      name: 'clock check',
      everyMs: CLOCK_CHECK_EVERY_MS,
      runOnce: () => this.check(),
      clock,
      random,
      log,
    });
  }

  async stop(): Promise<void> {
    await this.#loop?.stop();
  }

  /** Whether we may act by our wall clock at this moment. */
  trusts(): boolean {
    return this.problem() === null;
  }

  /** For readiness answers. */
  problem(): string | null {
    if (this.#measured === null) return 'no server has told its time yet';
    const movedMs = this.#movedMs(this.#measured);
    const { skews } = this.#measured;
    if (movedMs !== 0) {
      // Set anew, or its machine was suspended: what was measured before says nothing of it any more.
      this.#wake();
      return `the clock of this machine moved by ${(movedMs / SECOND_MS).toFixed(1)} s: it is being compared with the servers`;
    }
    if (judgeClock(skews) !== 'wrong') return null;
    return `the clock of this machine is wrong: ${skews.map(describe).join(', ')}`;
  }

  /** One comparison with all servers; without any answer the former one stands. */
  async check(): Promise<void> {
    const { sources, clock, telemetry } = this.#parts;
    // A step while one server is still to answer is not in what the others told.
    const at = clock.moment();
    const answers = await Promise.allSettled(sources().map((source) => this.#ask(source)));
    this.#isWoken = false;
    const skews = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    if (skews.length === 0) return;
    for (const { source } of this.#measured?.skews ?? []) {
      if (!skews.some((skew) => skew.source === source)) telemetry.dropGauge('punctual_clock_skew_seconds', { source });
    }
    for (const { source, aheadMs } of skews) {
      telemetry.gauge('punctual_clock_skew_seconds', aheadMs / SECOND_MS, { source });
    }
    this.#measured = { skews, at };
    this.#say(judgeClock(skews), skews);
  }

  async #ask(source: ClockSource): Promise<Skew> {
    const { clock } = this.#parts;
    const sentAt = clock.moment();
    const serverAt = await source.now();
    return skewOf({ source: source.name, serverAt, sentAt, receivedAt: clock.moment() });
  }

  /** A few milliseconds come and go with rounding and slewing. */
  #movedMs({ at }: Measured): number {
    const movedMs = steppedMs(at, this.#parts.clock.moment());
    return Math.abs(movedMs) < SECOND_MS ? 0 : movedMs;
  }

  /** Once for each comparison: it may be that only the machine was suspended, and the clock is right. */
  #wake(): void {
    if (this.#isWoken) return;
    this.#isWoken = true;
    this.#loop?.wake();
  }

  #say(verdict: ClockVerdict, skews: readonly Skew[]): void {
    const { log } = this.#parts;
    if (verdict === this.#said) return;
    this.#said = verdict;
    const detail = { servers: skews.map(describe) };
    if (verdict === 'good') log.info('the clock agrees with the servers again', detail);
    else if (verdict === 'off') log.warn('the clock differs from a server’s by a second or more', detail);
    else log.error('the clock of this machine is wrong: stopping until it is right', detail);
  }
}

function describe({ source, aheadMs }: Skew): string {
  const aheadS = aheadMs / SECOND_MS;
  return `${Math.abs(aheadS).toFixed(1)} s ${aheadS < 0 ? 'behind' : 'ahead of'} ${source}`;
}
