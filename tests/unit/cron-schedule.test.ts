import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { type CronOptions, parseCron, readCron } from '../../services/core/domain/cron-schedule.ts';
import { cronOf, slotsAfter, slotsBefore } from '../support/cron.ts';

interface HandedOverCase {
  readonly id: string;
  readonly cron: string;
  readonly time_zone: string;
  readonly after: string;
  readonly next: readonly string[];
}

const CASES = JSON.parse(
  readFileSync(new URL('../support/cron-cases.json', import.meta.url), 'utf8'),
) as readonly HandedOverCase[];

function faults(expression: string, options: CronOptions | string = 'UTC'): readonly string[] {
  const parsed = parseCron(expression, typeof options === 'string' ? { timeZone: options } : options);
  return parsed.ok ? [] : parsed.errors.map(({ field, message }) => `${field}: ${message}`);
}

function assertRefused(expression: string, ...words: readonly RegExp[]): void {
  const [fault, ...others] = faults(expression);
  assert.deepEqual(others, [], expression);
  assert.ok(fault !== undefined, `${expression} was accepted`);
  for (const word of words) assert.match(fault, word);
}

function assertSlots(
  expression: string,
  options: CronOptions | string,
  after: string,
  expected: readonly string[],
): void {
  const cron = cronOf(expression, typeof options === 'string' ? { timeZone: options } : options);
  assert.deepEqual(slotsAfter(cron, after, expected.length), expected);
}

/** Of this process alone: other processes of a busy machine do not count. */
function cpuMs(work: () => unknown): number {
  const start = process.cpuUsage();
  work();
  return process.cpuUsage(start).user / 1_000;
}

function countIn(expression: string, timeZone: string, from: string, to: string): number {
  const cron = cronOf(expression, { timeZone });
  let count = 0;
  for (let slot = cron.next(Date.parse(from) - 1); slot !== null && slot < Date.parse(to); slot = cron.next(slot))
    count++;
  return count;
}

describe('the cron rule, cases handed over', () => {
  for (const { id, cron, time_zone: timeZone, after, next } of CASES) {
    it(`${id}: ${cron} in ${timeZone}`, () => {
      assertSlots(cron, timeZone, after, next);
      const last = new Date(Date.parse(next.at(-1)!) + 1).toISOString();
      assert.deepEqual(slotsBefore(cronOf(cron, { timeZone }), last, next.length), next, 'and back');
    });
  }
});

describe('the cron rule, reports on time zones', () => {
  it('R001: a daily time inside the gap neither moves the search on nor is lost', () => {
    assertSlots('30 2 * * *', 'America/New_York', '2026-03-07T12:00:00Z', [
      '2026-03-08T07:00:00Z',
      '2026-03-09T06:30:00Z',
    ]);
  });

  it('R003: a nightly job runs once in the night of 25 hours', () => {
    assertSlots('0 2 * * *', 'Europe/Berlin', '2023-10-28T12:00:00Z', ['2023-10-29T00:00:00Z', '2023-10-30T01:00:00Z']);
    assert.equal(countIn('0 2 * * *', 'Europe/Berlin', '2023-10-28T22:00:00Z', '2023-10-29T12:00:00Z'), 1);
  });

  it('R005: a repeat of half an hour is a repeat as well', () => {
    assertSlots('45 1 * * *', 'Australia/Lord_Howe', '2026-04-03T20:00:00Z', [
      '2026-04-04T14:45:00Z',
      '2026-04-05T15:15:00Z',
    ]);
  });

  it('R007: a day of 23 hours is no reason to land two days on', () => {
    assertSlots('0 0 * * *', 'Europe/Prague', '2026-03-28T23:30:00Z', ['2026-03-29T22:00:00Z']);
    assertSlots('0 12 * * 0', 'Europe/Berlin', '2022-03-24T11:00:00Z', ['2022-03-27T10:00:00Z']);
  });

  it('R009: the week after the change runs once', () => {
    assertSlots('0 12 * * 1', 'Europe/Amsterdam', '2026-10-19T10:00:00Z', [
      '2026-10-26T11:00:00Z',
      '2026-11-02T11:00:00Z',
    ]);
  });

  it('R011: asked from inside the second copy of an hour, the answer is never in the past', () => {
    assertSlots('30 1 * * *', 'America/New_York', '2026-11-01T06:10:00Z', ['2026-11-02T06:30:00Z']);
  });

  it('R013: the next slot comes from the slot, and a clock that is early does not make another', () => {
    const cron = cronOf('0 4 * * *', { timeZone: 'UTC' });
    assert.deepEqual(slotsAfter(cron, '2026-06-01T03:59:52.900Z', 1), ['2026-06-01T04:00:00Z']);
    assert.deepEqual(slotsAfter(cron, '2026-06-01T04:00:00.000Z', 1), ['2026-06-02T04:00:00Z']);
    assert.deepEqual(slotsAfter(cron, '2026-06-01T03:59:59.999Z', 1), ['2026-06-01T04:00:00Z']);
  });
});

describe('the cron rule, reports on syntax', () => {
  it('R014: missing fields are refused, not filled in', () => {
    assertRefused('', /^cron: is empty: it takes 5 fields/);
    assertRefused('   ', /is empty/);
    assertRefused('*', /has 1 field:/);
    assertRefused('* * * *', /has 4 fields:/);
    assertRefused('0 0 1 1 * * 2026', /has 7 fields: .* there is no field for the year/);
    assertRefused('CRON_TZ=Europe/Berlin 0 9 * * *', /has a time zone in it: that is said in time_zone/);
  });

  it('R016: a date that never comes is refused within 50 ms', () => {
    for (const expression of [
      '0 0 30 2 *',
      '0 0 31 4 *',
      '0 0 31 2,4,6 *',
      '0 0 30-31 2 *',
      '0 0 30 2 ?',
      '59 59 23 31 feb-feb *',
    ]) {
      assertRefused(expression, /never fires/);
      assert.ok(cpuMs(() => faults(expression)) < 50, expression);
    }
    assertSlots('0 0 31 4,5 *', 'UTC', '2026-01-01T00:00:00Z', ['2026-05-31T00:00:00Z']);
    assertSlots('0 0 29 2 *', 'UTC', '2096-03-01T00:00:00Z', ['2104-02-29T00:00:00Z']);
  });

  it('R018: both day fields restricted: either matches', () => {
    assertSlots('0 0 13 * 5', 'UTC', '2026-02-01T00:00:00Z', [
      '2026-02-06T00:00:00Z',
      '2026-02-13T00:00:00Z',
      '2026-02-20T00:00:00Z',
      '2026-02-27T00:00:00Z',
    ]);
    assert.equal(countIn('0 0 13 * 5', 'UTC', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'), 61);
    // A field that starts with * is no restriction of its own, whatever its step: both must match.
    assert.equal(countIn('0 0 */2 * 5', 'UTC', '2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z'), 2);
    assert.equal(countIn('0 0 13 * */3', 'UTC', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'), 4);
  });

  it('R020: 7 is Sunday everywhere', () => {
    assertSlots('0 0 * * 7L', 'UTC', '2026-06-01T00:00:00Z', [
      '2026-06-28T00:00:00Z',
      '2026-07-26T00:00:00Z',
      '2026-08-30T00:00:00Z',
    ]);
    const weekends = ['2026-06-06T00:00:00Z', '2026-06-07T00:00:00Z', '2026-06-13T00:00:00Z'];
    for (const days of ['6-7', 'sat-sun', 'SAT-SUN', '6-0', '6,7', '0,6', 'sun,sat']) {
      assertSlots(`0 0 * * ${days}`, 'UTC', '2026-06-01T00:00:00Z', weekends);
    }
    assertSlots('0 0 * * 7#2', 'UTC', '2026-06-01T00:00:00Z', ['2026-06-14T00:00:00Z']);
  });

  it('R022: a step wider than its field is refused, with the reason', () => {
    assertRefused('*/90 * * * *', /^cron: minute: the step of \*\/90 is wider than the field \(0-59\)/);
    assertRefused('0 */25 * * *', /^cron: hour: .*\(0-23\).* anew in each day/);
    assertRefused('*/60 * * * *', /^cron: minute: .* name that value instead/);
    assertRefused('5/60 * * * *', /minute/);
    assertRefused('0 0 */31 * *', /day of month/);
    assertRefused('0 0 1 */12 *', /month/);
    assertRefused('0 0 * * */8', /day of week/);
    // Sunday, which has two numbers.
    for (const days of ['*/7', '?/7', '0/7', '1/7', '1-7/7', 'H/7', 'H(0-7)/7']) {
      assertRefused(`0 0 * * ${days}`, /day of week: the step of .* would name one value only/);
    }
    assert.deepEqual(faults('0 0 * * */6'), []);
    assertRefused('H/60 * * * *', /minute/);
    assertRefused('H(0-9)/10 * * * *', /wider than its range \(0-9\)/);
  });

  it('R024: seconds come first', () => {
    assertSlots('0 0 12 * * *', 'UTC', '2026-06-12T00:00:00Z', ['2026-06-12T12:00:00Z', '2026-06-13T12:00:00Z']);
    assertSlots('*/47 * * * * *', 'UTC', '2026-06-12T00:00:00Z', [
      '2026-06-12T00:00:47Z',
      '2026-06-12T00:01:00Z',
      '2026-06-12T00:01:47Z',
    ]);
  });

  it('R026: zones are IANA names as they are spelled there', () => {
    const zoneFault = (timeZone: string): string => {
      const found = faults('0 0 * * *', timeZone);
      assert.equal(found.length, 1, `${timeZone} was accepted`);
      assert.match(found[0]!, /^time_zone: /);
      return found[0]!;
    };
    assert.equal(
      zoneFault('Mars/Phobos'),
      'time_zone: Mars/Phobos is no IANA time zone name; name a zone, such as Europe/Berlin or UTC',
    );
    assert.match(zoneFault(''), /is required/);
    assert.match(zoneFault('local'), /another zone on each machine/);
    for (const offset of ['UTC+5', 'GMT+5', '+05:00', '-0500', 'UTC-05:30', '5', 'Z', 'z'])
      assert.match(zoneFault(offset), /is an offset/);
    assert.match(zoneFault('PST'), /abbreviations .* America\/Los_Angeles/);
    assert.match(zoneFault('EST'), /abbreviations .* America\/New_York/);
    assert.match(zoneFault('IST'), /abbreviations .* Asia\/Kolkata/);
    for (const abbreviation of ['CET', 'CEST', 'MST', 'HST', 'EET', 'AEST', 'JST']) zoneFault(abbreviation);
    assert.match(zoneFault('europe/berlin'), /is spelled Europe\/Berlin/);
    assert.match(zoneFault('us/pacific'), /is spelled US\/Pacific/);
    assert.match(zoneFault('utc'), /is spelled UTC/);
    assert.match(zoneFault('Europe/Berln'), /did you mean Europe\/Berlin\?/);
    assert.match(zoneFault(' Europe/Berlin'), /did you mean/);
    assert.match(zoneFault('New York'), /did you mean America\/New_York\?/);
    assert.match(zoneFault('berlin'), /did you mean Europe\/Berlin\?/);
    assert.match(zoneFault('__proto__'), /no IANA time zone name/);
    for (const name of ['SystemV/PST8', 'Etc/Unknown', 'Factory', 'America/New_York\n', 'Europe/Berlin/x'])
      zoneFault(name);
    for (const name of [
      'Europe/Kiev',
      'Europe/Kyiv',
      'Asia/Calcutta',
      'US/Pacific',
      'UTC',
      'Etc/UTC',
      'GMT',
      'Japan',
    ]) {
      assert.deepEqual(faults('0 0 * * *', name), [], name);
    }
  });
});

describe('the slots before', () => {
  const before = (expression: string, timeZone: string, at: string, count: number): readonly string[] =>
    slotsBefore(cronOf(expression, { timeZone }), at, count);

  it('have the first copy of a repeated time, however long ago it was', () => {
    for (const at of ['2026-11-01T12:00:00Z', '2026-11-03T06:00:00Z', '2026-11-04T12:00:00Z', '2026-11-08T06:30:00Z']) {
      const sundays = ['2026-10-25T05:30:00Z', '2026-11-01T05:30:00Z'];
      assert.deepEqual(before('30 1 * * 0', 'America/New_York', at, 2), sundays, at);
    }
    const years = ['2025-11-01T04:00:00Z', '2026-11-01T04:00:00Z'];
    assert.deepEqual(before('0 0 1 11 *', 'America/Havana', '2027-03-01T00:00:00Z', 2), years);
    assert.deepEqual(before('0 0 1 11 *', 'America/Havana', '2027-10-31T00:00:00Z', 2), years);
  });
});

describe('times that clocks always skip', () => {
  const skipping = (timeZone: string): CronOptions => ({ timeZone, onDstGap: 'skip' });

  it('never fire where gaps are skipped: refused within 50 ms, whatever an H hashes', () => {
    for (const [expression, timeZone] of [
      ['30 2 * 3 7L', 'Europe/Vienna'],
      ['* * 2 * mar sunL', 'Europe/Rome'],
      ['0,59 2 * 3 0#2', 'America/Detroit'],
      ['0 0 * 4 5L', 'Africa/Cairo'],
      ['H 2 * 3 7L', 'Europe/Madrid'],
      ['15 2 * 10 0#1', 'Australia/Lord_Howe'],
    ] as const) {
      // Zones of their own: what a search learns of a zone is kept.
      const ms = cpuMs(() =>
        assert.match(faults(expression, skipping(timeZone)).join(), /^cron: never fires: .* clocks in/),
      );
      assert.ok(ms < 50, `${expression} in ${timeZone}: ${ms} ms`);
      assert.deepEqual(faults(expression, timeZone), [], 'with run_after it fires');
    }
  });

  it('are skipped without end by a schedule that was made before its zone had them', () => {
    const read = readCron('30 2 * 3 7L', skipping('Europe/Paris'));
    assert.ok(read.ok);
    const { schedule } = read;
    const ms = cpuMs(() => {
      assert.equal(schedule.next(Date.parse('2026-01-01T00:00:00Z')), null);
      assert.equal(schedule.next(Date.parse('3000-01-01T00:00:00Z')), null);
      // The year in which France began daylight-saving time on 6 April.
      assert.deepEqual(slotsBefore(schedule, '9999-01-01T00:00:00Z', 1), ['1980-03-30T01:30:00Z']);
    });
    assert.ok(ms < 100, `${ms} ms`);
  });

  it('are no fault where they are skipped in some years only', () => {
    assertSlots('30 2 29 3 *', skipping('Europe/Berlin'), '2025-06-01T00:00:00Z', [
      '2027-03-29T00:30:00Z',
      '2028-03-29T00:30:00Z',
    ]);
    // Brazil gave its daylight-saving time up in 2019.
    assertSlots('0 0 * 11 0#1', skipping('America/Sao_Paulo'), '2017-12-01T00:00:00Z', [
      '2019-11-03T03:00:00Z',
      '2020-11-01T03:00:00Z',
    ]);
    assertSlots('30 2 * 3,11 7L', skipping('Europe/Berlin'), '2026-01-01T00:00:00Z', ['2026-11-29T01:30:00Z']);
    assertSlots('30 2-3 * 3 7L', skipping('Europe/Berlin'), '2026-01-01T00:00:00Z', ['2026-03-29T01:30:00Z']);
  });
});

describe('cron fields', () => {
  const sameAs = (one: string, other: string): void => {
    const [first, second] = [one, other].map((expression) => cronOf(expression, { timeZone: 'UTC' }));
    assert.deepEqual(
      slotsAfter(first!, '2026-01-01T00:00:00Z', 40),
      slotsAfter(second!, '2026-01-01T00:00:00Z', 40),
      one,
    );
  };

  it('have macros in any case', () => {
    sameAs('@yearly', '0 0 1 1 *');
    sameAs('@Annually', '0 0 1 1 *');
    sameAs('@MONTHLY', '0 0 1 * *');
    sameAs('@weekly', '0 0 * * 0');
    sameAs('@daily', '0 0 * * *');
    sameAs('@midnight', '0 0 * * *');
    sameAs(' @hourly ', '0 * * * *');
    assertRefused('@reboot', /@reboot is none of @yearly/);
    // The Kelvin sign, whose lower case is a k.
    assertRefused('@wee\u212Aly', /is none of @yearly/);
    assertRefused('@every 5m', /is none of/);
  });

  it('take names, lists, ranges and steps in every place', () => {
    sameAs('5/15 * * * *', '5,20,35,50 * * * *');
    sameAs('0 0 1 jan,Mar-JUN/2 *', '0 0 1 1,3,5 *');
    sameAs('0 0 * * mon-fri/2', '0 0 * * 1,3,5');
    sameAs('0 0 * * 1/2', '0 0 * * 1,3,5,7');
    sameAs('0 0 ? * ?', '0 0 * * *');
    sameAs('?/20 ? * * *', '*/20 * * * *');
    sameAs('05 09 01 01 *', '5 9 1 1 *');
    sameAs('  5   9\t*  * * ', '5 9 * * *');
    sameAs('0 0 * * fri-sun', '0 0 * * 5,6,0');
    sameAs('1,1,1-2 0 * * *', '1,2 0 * * *');
  });

  it('know the last day, the last weekday and the nth weekday of a month', () => {
    assertSlots('0 0 L * *', 'UTC', '2028-01-15T00:00:00Z', [
      '2028-01-31T00:00:00Z',
      '2028-02-29T00:00:00Z',
      '2028-03-31T00:00:00Z',
    ]);
    assertSlots('0 0 15,L 2 *', 'UTC', '2026-01-01T00:00:00Z', ['2026-02-15T00:00:00Z', '2026-02-28T00:00:00Z']);
    assertSlots('0 0 * * friL', 'UTC', '2026-06-01T00:00:00Z', ['2026-06-26T00:00:00Z', '2026-07-31T00:00:00Z']);
    assertSlots('0 0 * * mon#1,2#3', 'UTC', '2026-06-01T00:00:00Z', [
      '2026-06-16T00:00:00Z',
      '2026-07-06T00:00:00Z',
      '2026-07-21T00:00:00Z',
    ]);
    assertSlots('0 0 * * 1#5', 'UTC', '2026-01-01T00:00:00Z', ['2026-03-30T00:00:00Z', '2026-06-29T00:00:00Z']);
    assertSlots('0 0 L * 5', 'UTC', '2026-06-20T00:00:00Z', ['2026-06-26T00:00:00Z', '2026-06-30T00:00:00Z']);
  });

  it('are refused with the field and what would be right', () => {
    assertRefused('60 * * * *', /minute: 60 is out of range; it must be 0-59/);
    assertRefused('* 24 * * *', /hour: 24 .* 0-23/);
    assertRefused('* * 0 * *', /day of month: 0 .* 1-31/);
    assertRefused('* * * 13 *', /month: 13 .* 1-12 or jan-dec/);
    assertRefused('* * * * 8', /day of week: 8 .* 0-7 or sun-sat/);
    assertRefused('60 * * * * *', /second: 60 .* 0-59/);
    assertRefused('*/0 * * * *', /minute: .* step of 0/);
    assertRefused('0 22-2 * * *', /hour: 22-2 runs backwards; write 22-23,0-2/);
    assertRefused('0 0 * * fri-mon', /day of week: fri-mon runs backwards; write 5-6,0-1/);
    assertRefused('0 0 * nov-feb *', /month: nov-feb runs backwards; write 11-12,1-2/);
    assertRefused('0 0 15W * *', /day of month: 15W is not supported: W/);
    assertRefused('0 0 LW * *', /W \(the nearest weekday\)/);
    assertRefused('0 0 L-3 * *', /L-3 is not supported/);
    assertRefused('0 0 * * L', /day of week: L alone/);
    assertRefused('0 0 * * 1#6', /day of week: 1#6 counts to 6/);
    assertRefused('0 0 * * 1#0', /day of week/);
    assertRefused('0 0 * * Monday', /day of week: Monday .* did you mean mon\?/);
    assertRefused('0 0 * january *', /month: january .* did you mean jan\?/);
    for (const minute of [
      '-5',
      '+5',
      '1.5',
      '1e1',
      '0x5',
      '5-',
      '-',
      '1,,2',
      ',1',
      '*5',
      '**',
      '*-5',
      '1-5-9',
      '5/',
      '/5',
      '*/-5',
      '*/1.5',
      'mon',
      'L',
      'W',
      '5#1',
      '5L',
      'HH',
      'H5',
      'H()',
      'H(5)',
      '%',
      '~',
      '٣',
      '99999999999999999999',
    ]) {
      assertRefused(`${minute} * * * *`, /^cron: minute: /);
    }
    for (const days of ['1-5L', '1-5#2', '*/2L', '5L-6L', '1#2/2', 'mon-friL']) {
      assertRefused(
        `0 0 * * ${days}`,
        /day of week: .* (L|#\d+) goes with no range and no step; write a list, such as 1/,
      );
    }
    assertRefused('0 0 1-L * *', /day of month: 1-L .* L goes with no range and no step; write a list, such as 15,L/);
    assertRefused('0 0 H(1-40) * *', /day of month: 40 is out of range/);
    assertRefused('0 H(9-5) * * *', /hour: H\(9-5\) runs backwards; write H\(5-9\)/);
    assertRefused(`${'0,'.repeat(600)}0 * * * *`, /longer than 1024 characters/);
  });

  it('have spaces or tabs between them, and no other blanks', () => {
    sameAs('\t0\t \t9 * * *\t ', '0 9 * * *');
    for (const [blank, name] of Object.entries({
      '\u00A0': 'U\\+00A0',
      '\u3000': 'U\\+3000',
      '\uFEFF': 'U\\+FEFF',
      '\u2028': 'U\\+2028',
      '\n': 'U\\+000A',
      '\r': 'U\\+000D',
    })) {
      const named = new RegExp(`^cron: has a blank ${name}; between fields stand spaces or tabs`);
      for (const expression of [`0${blank}9 * * *`, `0 9 * * *${blank}`, `${blank}@daily`])
        assertRefused(expression, named);
    }
  });

  it('have their faults told once each, and a handful at most', () => {
    assert.equal(faults(`${'61,'.repeat(300)}61 * * * *`).length, 1);
    const many = faults(`${Array.from({ length: 200 }, (_, index) => 60 + index).join(',')} * 99 * *`);
    assert.equal(many.length, 7);
    assert.equal(many[5], 'cron: minute: and 195 more like these');
    assert.match(many[6]!, /^cron: day of month: 99/);
  });

  it('are all told at once, and the zone with them', () => {
    const found = faults('60 24 0 13 8', 'PST');
    assert.deepEqual(
      found.map((fault) => /^(cron: [a-z ]+|time_zone):/.exec(fault)?.[1]),
      ['cron: minute', 'cron: hour', 'cron: day of month', 'cron: month', 'cron: day of week', 'time_zone'],
    );
  });
});

describe('H', () => {
  const minuteOf = (id: string): number =>
    new Date(cronOf('H * * * *', { timeZone: 'UTC', hashSeed: id }).next(0)!).getUTCMinutes();
  const ids = Array.from({ length: 1_000 }, (_, number) => `s_${number.toString(32).padStart(13, '0')}_00`);

  it('spreads 1,000 hourly schedules: at most 40 in the busiest minute', () => {
    const perMinute = new Map<number, number>();
    for (const id of ids) perMinute.set(minuteOf(id), (perMinute.get(minuteOf(id)) ?? 0) + 1);
    assert.ok(Math.max(...perMinute.values()) <= 40, String(Math.max(...perMinute.values())));
    assert.equal(perMinute.size, 60);
  });

  it('is the same in every process and release', () => {
    assert.deepEqual(ids.slice(0, 8).map(minuteOf), [17, 40, 13, 4, 32, 31, 40, 34]);
  });

  it('starts jobs at a hashed second of the slot, unless the expression has seconds of its own', () => {
    const offsets = ids.map((id) => cronOf('H * * * *', { timeZone: 'UTC', hashSeed: id }).startOffsetMs / 1_000);
    assert.equal(new Set(offsets).size, 60);
    assert.ok(offsets.every((offset) => Number.isInteger(offset) && offset >= 0 && offset < 60));
    for (const expression of ['0 H * * * *', '0 * * * *', 'H H * * * *']) {
      assert.equal(cronOf(expression, { timeZone: 'UTC', hashSeed: 's' }).startOffsetMs, 0, expression);
    }
    assert.equal(cronOf('H * * * *', { timeZone: 'UTC', hashSeed: 's' }).hashed, true);
    assert.equal(cronOf('0 * * * *', { timeZone: 'UTC', hashSeed: 's' }).hashed, false);
  });

  it('stays in its range, keeps its step, and names a day that every month has', () => {
    for (const hashSeed of ids.slice(0, 200)) {
      const slots = (expression: string, count: number): Date[] =>
        slotsAfter(cronOf(expression, { timeZone: 'UTC', hashSeed }), '2026-01-01T00:00:00Z', count).map(
          (slot) => new Date(slot),
        );
      assert.ok(slots('H H(2-4) * * *', 3).every((slot) => slot.getUTCHours() >= 2 && slot.getUTCHours() <= 4));
      const [one, two, three] = slots('H/15 * * * *', 3).map(Number);
      assert.deepEqual([two! - one!, three! - two!], [900_000, 900_000]);
      assert.equal(new Set(slots('H H H * *', 12).map((slot) => slot.getUTCMonth())).size, 12);
      assert.equal(slots('H H * * H', 3).length, 3);
      assert.ok(
        slots('H(10-20)/4 0 * * *', 3).every((slot) => slot.getUTCMinutes() >= 10 && slot.getUTCMinutes() <= 20),
      );
    }
  });
});

describe('an H of which some places never come', () => {
  const ids = Array.from({ length: 300 }, (_, number) => `s_${number.toString(32).padStart(13, '0')}_00`);
  const skipping: CronOptions = { timeZone: 'Europe/Berlin', onDstGap: 'skip' };

  it('stands for one that does, whichever id it hashes', () => {
    for (const [expression, places] of [
      ['0 0 31 H *', 7],
      ['0 0 31 H(2-11) *', 5],
      ['0 0 31 H(3-8) *', 4],
      ['0 0 H(29-31) 2 *', 1],
      ['0 0 H(29-31) H *', 33],
      ['0 0 31 H(7-9),H(10-11) *', 4],
    ] as const) {
      assert.deepEqual(faults(expression), [], expression);
      const found = ids.map((hashSeed) => {
        const slot = cronOf(expression, { timeZone: 'UTC', hashSeed }).next(Date.parse('2028-01-01T00:00:00Z'));
        assert.ok(slot !== null, `${expression} of ${hashSeed}`);
        return new Date(slot).toISOString().slice(5, 10);
      });
      assert.ok(new Set(found).size <= places && new Set(found).size > places / 2, `${expression}: ${found.join()}`);
    }
    const ofId = (hashSeed: string): number | null =>
      cronOf('0 0 31 H *', { timeZone: 'UTC', hashSeed }).next(Date.parse('2026-01-01T00:00:00Z'));
    assert.deepEqual(ids.map(ofId), ids.map(ofId));
  });

  it('is refused when none ever comes', () => {
    assertRefused('0 0 H(30-31) 2 *', /never fires/);
    assertRefused('0 0 31 H(4-4) *', /never fires/);
  });

  it('is not in the gap that a schedule skips on each of its dates', () => {
    for (const hashSeed of ids.slice(0, 30)) {
      assert.ok(cronOf('H H(2-3) * 3 7L', { ...skipping, hashSeed }).next(Date.parse('2026-01-01T00:00:00Z')) !== null);
      assert.ok(cronOf('30 2 * H 7L', { ...skipping, hashSeed }).next(Date.parse('2026-01-01T00:00:00Z')) !== null);
    }
  });
});

describe('a zone name of any length', () => {
  it('is refused at once, and not printed whole', () => {
    for (const name of ['x/'.repeat(50_000), `Europe/Berlin${'n'.repeat(60)}`]) {
      let found: readonly string[] = [];
      assert.ok(cpuMs(() => (found = faults('0 0 * * *', name))) < 50);
      assert.match(found.join(), /^time_zone: .{64}\.\.\. is no IANA time zone name; name a zone, such as/);
    }
  });
});

describe('the settings for clock changes', () => {
  const gap = (options: Omit<CronOptions, 'timeZone'>, expression = '30 2 * * *'): readonly string[] =>
    slotsAfter(cronOf(expression, { timeZone: 'America/New_York', ...options }), '2026-03-08T05:30:00Z', 2);
  const repeat = (options: Omit<CronOptions, 'timeZone'>, expression = '30 1 * * *'): readonly string[] =>
    slotsAfter(cronOf(expression, { timeZone: 'America/New_York', ...options }), '2026-11-01T04:45:00Z', 3);

  it('on_dst_gap: a skipped time runs after the gap, or not at all', () => {
    assert.deepEqual(gap({ onDstGap: 'run_after' }), ['2026-03-08T07:00:00Z', '2026-03-09T06:30:00Z']);
    assert.deepEqual(gap({ onDstGap: 'skip' }), ['2026-03-09T06:30:00Z', '2026-03-10T06:30:00Z']);
    // For an expression that follows elapsed time it makes up what the gap took.
    assert.deepEqual(gap({}, '30 */2 * * *'), ['2026-03-08T08:30:00Z', '2026-03-08T10:30:00Z']);
    assert.deepEqual(gap({ onDstGap: 'run_after' }, '30 */2 * * *'), ['2026-03-08T07:00:00Z', '2026-03-08T08:30:00Z']);
  });

  it('on_dst_repeat: a repeated time runs at its first copy, or at both', () => {
    assert.deepEqual(repeat({ onDstRepeat: 'first' }), [
      '2026-11-01T05:30:00Z',
      '2026-11-02T06:30:00Z',
      '2026-11-03T06:30:00Z',
    ]);
    assert.deepEqual(repeat({ onDstRepeat: 'both' }), [
      '2026-11-01T05:30:00Z',
      '2026-11-01T06:30:00Z',
      '2026-11-02T06:30:00Z',
    ]);
    assert.deepEqual(repeat({ onDstRepeat: 'first' }, '30 * * * *'), [
      '2026-11-01T05:30:00Z',
      '2026-11-01T07:30:00Z',
      '2026-11-01T08:30:00Z',
    ]);
  });

  it('an hour field that lists all hours names fixed times; one that starts with * does not', () => {
    assert.deepEqual(repeat({}, '30 0-23 * * *').slice(0, 2), ['2026-11-01T05:30:00Z', '2026-11-01T07:30:00Z']);
    assert.deepEqual(repeat({}, '30 *,1 * * *').slice(0, 2), ['2026-11-01T05:30:00Z', '2026-11-01T06:30:00Z']);
  });
});

describe('the search', () => {
  it('is bounded over centuries: 29 February on a Sunday', () => {
    const cron = cronOf('0 0 * 2 0#5', { timeZone: 'Europe/Berlin' });
    assert.deepEqual(slotsAfter(cron, '2070-01-01T00:00:00Z', 3), [
      '2088-02-28T23:00:00Z',
      '2128-02-28T23:00:00Z',
      '2156-02-28T23:00:00Z',
    ]);
    assert.deepEqual(slotsBefore(cron, '2128-02-28T23:00:00Z', 1), ['2088-02-28T23:00:00Z']);
    const elsewhere = cronOf('0 0 * 2 0#5', { timeZone: 'Europe/Zurich' });
    assert.ok(cpuMs(() => slotsAfter(elsewhere, '2070-01-01T00:00:00Z', 3)) < 50);
  });

  it('ends where years have five digits', () => {
    const cron = cronOf('0 0 1 1 *', { timeZone: 'America/New_York' });
    assert.equal(cron.next(Date.parse('9999-01-01T05:00:00Z')), null);
    assert.equal(cron.next(Infinity), null);
    assert.equal(cron.previous(Date.parse('1000-01-01T00:00:00Z')), null);
    assert.equal(cron.next(Date.parse('0900-01-01T00:00:00Z'))! >= Date.parse('1000-01-01T00:00:00Z'), true);
  });
});
