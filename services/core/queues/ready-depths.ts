import { PRIORITIES, type Priority, subjectKey } from '../domain/job-status.ts';
import { READY_DEPTHS_KEPT_MS, READY_DEPTHS_STAND_MS, READY_DEPTHS_WAIT_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ReadyQueue } from '../ports/ready-queue.ts';
import type { Log } from '../ports/telemetry.ts';
import { SharedQuestion } from './shared-question.ts';

/** How many messages of each queue nobody claimed yet: as the ready stream told a moment ago, and what we added since. */
export class ReadyDepths {
  readonly #queue: Pick<ReadyQueue, 'depths'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #question: SharedQuestion;
  /** By subject. */
  #told: ReadonlyMap<string, number> = new Map();
  /** By subject, or by queue where it is not known which of its subjects it will be. */
  readonly #added = new Map<string, number>();
  /** When what it told was asked for. */
  #toldAt: MonotonicMs | null = null;

  constructor(parts: { queue: Pick<ReadyQueue, 'depths'>; clock: Clock; log: Log }) {
    const { queue, clock, log } = parts;
    this.#queue = queue;
    this.#clock = clock;
    this.#log = log;
    this.#question = new SharedQuestion({ clock, everyMs: READY_DEPTHS_KEPT_MS, ask: (now) => this.#ask(now) });
  }

  /** As it is known; what is too old is asked for again meanwhile. */
  of(queue: string): number {
    void this.#question.asked();
    return this.known(queue);
  }

  /** The same, and nothing is asked. */
  known(queue: string): number {
    return PRIORITIES.reduce(
      (sum, priority) => sum + this.#at(subjectKey({ queue, priority })),
      this.#added.get(queue) ?? 0,
    );
  }

  /** Of each priority and the higher ones, the highest first; nothing is asked. */
  knownUpTo(queue: string): ReadonlyMap<Priority, number> {
    let sum = 0;
    return new Map(PRIORITIES.map((priority) => [priority, (sum += this.#at(subjectKey({ queue, priority })))]));
  }

  /** The same, once what is too old has been asked for again. */
  async freshOf(queue: string): Promise<number> {
    await this.#question.asked();
    return this.of(queue);
  }

  /** Whether it is known as it was a second ago at most, if need be after a short wait for the stream's word. */
  async areRecent(): Promise<boolean> {
    if (this.#isRecent()) void this.#question.asked();
    else await this.#question.shortly(READY_DEPTHS_WAIT_MS);
    return this.#isRecent();
  }

  /** So many more are on their way to the stream; negative: so many are not, or have left it. */
  added(queue: string, count: number, priority?: Priority): void {
    const key = priority === undefined ? queue : subjectKey({ queue, priority });
    this.#add(key, count);
  }

  #at(key: string): number {
    return (this.#told.get(key) ?? 0) + (this.#added.get(key) ?? 0);
  }

  #add(key: string, count: number): void {
    const sum = (this.#added.get(key) ?? 0) + count;
    if (sum === 0) this.#added.delete(key);
    else this.#added.set(key, sum);
  }

  #isRecent(): boolean {
    return this.#toldAt !== null && msBetween(this.#toldAt, this.#clock.monotonic()) < READY_DEPTHS_STAND_MS;
  }

  async #ask(now: MonotonicMs): Promise<void> {
    const before = [...this.#added];
    try {
      const depths = await this.#queue.depths();
      this.#told = new Map(depths.map((depth) => [subjectKey(depth), depth.messages]));
      // What was published before is in the answer. What was claimed before may be in it as well: a message goes when it is
      // acknowledged, so claims under way count as unclaimed again. What came meanwhile may be in it too, and counts twice. Each for
      // a moment.
      for (const [key, count] of before) this.#add(key, -count);
      this.#toldAt = now;
    } catch (error) {
      this.#log.debug('the depths of the ready stream are not known', { error: String(error) });
    }
  }
}
