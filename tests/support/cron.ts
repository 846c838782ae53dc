import assert from 'node:assert/strict';
import { type CronOptions, type CronSchedule, parseCron } from '../../services/core/domain/cron-schedule.ts';

/** The schedule of an expression that must be right. */
export function cronOf(expression: string, options: CronOptions): CronSchedule {
  const parsed = parseCron(expression, options);
  assert.ok(parsed.ok, `${expression} in ${options.timeZone}: ${JSON.stringify(parsed)}`);
  return parsed.schedule;
}

/** Slots as RFC 3339 with whole seconds. */
export function slotsAfter(cron: CronSchedule, after: string, count: number): string[] {
  const slots: string[] = [];
  for (let slot = cron.next(Date.parse(after)); slot !== null && slots.length < count; slot = cron.next(slot)) {
    slots.push(new Date(slot).toISOString().replace('.000Z', 'Z'));
  }
  return slots;
}

/** In order of time as well. */
export function slotsBefore(cron: CronSchedule, before: string, count: number): string[] {
  const slots: string[] = [];
  for (
    let slot = cron.previous(Date.parse(before));
    slot !== null && slots.length < count;
    slot = cron.previous(slot)
  ) {
    slots.unshift(new Date(slot).toISOString().replace('.000Z', 'Z'));
  }
  return slots;
}
