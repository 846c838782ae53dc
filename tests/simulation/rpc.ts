// Calls from outside to an api process, over a network of their own.

import type { UseCases } from '../../services/api/use-cases/types.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import type { Result } from '../../services/core/contract/problems.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { Chance } from './chance.ts';
import type { Machine } from './machine.ts';
import type { Slot, World } from './world.ts';

/** Null: no answer came in time, whatever became of the request. */
export type Answered<T> = { readonly value: T } | null;

const TIMEOUT_MS = 5 * SECOND_MS;
/** Most requests go to a process that says it is ready; a load balancer learns of a change some seconds late. */
const STALE_READINESS = 0.15;

export interface ApiCall<T> {
  readonly what: string;
  /** Sent by this process: nothing comes back to a dead one. Null for a client that lives for ever. */
  readonly from: Machine | null;
  readonly chance: Chance;
  readonly timeoutMs?: number;
  readonly ask: (useCases: UseCases) => Promise<T>;
  /** Called in the api as it answers, whether the answer arrives or not: what it says is a promise. */
  readonly promised: (value: T, askedAt: EpochMs) => void;
}

export async function callApi<T>(world: World, call: ApiCall<T>): Promise<Answered<T>> {
  const { clock, chaos } = world;
  const passage = chaos.request();
  const timeoutMs = call.timeoutMs ?? TIMEOUT_MS;
  const asked: Promise<Answered<T>>[] = [];
  if (!passage.isDropped) asked.push(serve(world, call, passage.outMs));
  // A proxy in between that tries again, or a client whose first try is still on its way.
  if (passage.isDoubled) asked.push(serve(world, call, passage.outMs + call.chance.between(0, 3 * SECOND_MS)));
  const overdue = clock.sleep(timeoutMs).then(() => null);
  const first = Promise.race([...asked, overdue]);
  const answer = passage.isAnswerDropped ? await first.then(() => overdue) : await first;
  await clock.sleep(passage.backMs);
  await call.from?.gate();
  return answer;
}

async function serve<T>(world: World, call: ApiCall<T>, outMs: number): Promise<Answered<T>> {
  await world.clock.sleep(outMs);
  const slot = pickApi(world, call.chance);
  if (slot?.running?.useCases === undefined) return never();
  const { machine, running } = slot;
  const { useCases } = running;
  if (useCases === undefined) return never();
  await machine.gate();
  world.trace.add(machine.name, `asked to ${call.what}`);
  const askedAt = world.clock.now();
  let value: T;
  try {
    value = await call.ask(useCases);
  } catch (error) {
    world.report({
      rule: 'an error of our own',
      detail: `${call.what}: ${String((error as Error).stack)}`,
      subject: null,
    });
    return never();
  }
  world.trace.add(machine.name, `answers to ${call.what}`, () => answerText(value));
  call.promised(value, askedAt);
  return { value };
}

function pickApi(world: World, chance: Chance): Slot | undefined {
  const up = world.slotsOf('api').filter(({ running }) => running !== null);
  const ready = up.filter(isReady);
  const from = ready.length === 0 || chance.happens(STALE_READINESS) ? up : ready;
  return from.length === 0 ? undefined : chance.pick(from);
}

/** One that stands still answers no probe either; nobody has noticed yet. */
function isReady({ machine, running }: Slot): boolean {
  return machine.isPaused || running?.problem() === null;
}

function never(): Promise<never> {
  return new Promise<never>(() => undefined);
}

function answerText(value: unknown): string {
  if (Array.isArray(value)) return value.map(answerText).join(', ').slice(0, 300);
  const { ok, problem } = value as Partial<Result<unknown> & { problem: { code: string } }>;
  if (ok === undefined) return 'done';
  return ok ? 'ok' : (problem?.code ?? '?');
}
