import { formatInstant, parseInstant } from '../core/contract/instant.ts';
import { DAY_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import { systemClock } from '../core/runtime/system-clock.ts';

/** The options of a command, as they were given. */
export interface WindowOptions {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** RFC 3339; `to` is exclusive. */
export interface Window {
  readonly from: string;
  readonly to: string;
}

/** A day where one end, or both, are left out: with neither the last 24 hours, or the next. Throws UsageError for what is no time. */
export function dayWindow({ from, to }: WindowOptions, side: 'past' | 'ahead'): Window {
  const start = from === undefined ? undefined : instantOf('--from', from);
  const fallback = systemClock.now() + (side === 'ahead' ? DAY_MS : 0);
  const end = to !== undefined ? instantOf('--to', to) : start === undefined ? fallback : start + DAY_MS;
  return { from: formatInstant(start ?? end - DAY_MS), to: formatInstant(end) };
}

/** What an act on many jobs is meant for is no default's to say. Throws UsageError where an end is left out. */
export function givenWindow({ from, to }: WindowOptions): Window {
  if (from === undefined || to === undefined) throw new UsageError('--from and --to are required');
  return { from, to };
}

export function windowText({ from, to }: Window): string {
  return `from ${from} to ${to}`;
}

function instantOf(option: string, text: string): EpochMs {
  const parsed = parseInstant(text);
  if (!parsed.ok) throw new UsageError(`${option} ${parsed.fault}`);
  return parsed.epochMs;
}
