import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runCli } from '../../services/cli/cli.ts';

async function cron(...words: string[]): Promise<{ code: number; output: string; errors: string }> {
  const written = { output: '', errors: '' };
  const code = await runCli(['cron', ...words], {
    output: { write: (text) => void (written.output += text) },
    errors: { write: (text) => void (written.errors += text) },
  });
  return { code, ...written };
}

const NEW_YORK = ['--time-zone', 'America/New_York', '--after', '2026-03-07T12:00:00Z'];

describe('punctual cron next', () => {
  it('prints the slots as UTC, one a line or as JSON', async () => {
    const answer = await cron('next', '30 2 * * *', ...NEW_YORK, '--count', '2');
    assert.deepEqual(answer, { code: 0, output: '2026-03-08T07:00:00Z\n2026-03-09T06:30:00Z\n', errors: '' });
    const json = await cron('next', '30 2 * * *', ...NEW_YORK, '--count', '2', '--json');
    assert.deepEqual(JSON.parse(json.output), { next: ['2026-03-08T07:00:00Z', '2026-03-09T06:30:00Z'] });
  });

  it('takes the settings for clock changes', async () => {
    const skipped = await cron('next', '30 2 * * *', ...NEW_YORK, '--count', '1', '--on-dst-gap', 'skip');
    assert.equal(skipped.output, '2026-03-09T06:30:00Z\n');
    const both = ['--time-zone', 'Europe/Berlin', '--after', '2026-10-24T23:00:00Z', '--on-dst-repeat', 'both'];
    assert.equal(
      (await cron('next', '0 2 * * *', ...both, '--count', '2')).output,
      '2026-10-25T00:00:00Z\n2026-10-25T01:00:00Z\n',
    );
  });

  it('says that H depends on the schedule, and hashes its id', async () => {
    const someone = await cron('next', 'H * * * *', '--time-zone', 'UTC', '--json');
    assert.match((JSON.parse(someone.output) as { note: string }).note, /--schedule-id/);
    const words = ['H * * * *', '--time-zone', 'UTC', '--json', '--schedule-id', 's_0000000000000_00'];
    const answer = JSON.parse((await cron('next', ...words)).output) as { next: string[]; note?: string };
    assert.equal(answer.note, undefined);
    assert.ok(answer.next.every((slot) => slot.slice(14) === '17:00Z'));
  });

  it('exits 2 with every fault, named as the API names the field', async () => {
    const words = [
      'next',
      '99 * * * *',
      '--time-zone',
      'PST',
      '--after',
      'noon',
      '--count',
      '0',
      '--on-dst-gap',
      'never',
    ];
    const answer = await cron(...words);
    assert.equal(answer.code, 2);
    assert.equal(answer.output, '');
    for (const fault of [
      /cron: minute: 99/,
      /time_zone: PST/,
      /after: must be RFC 3339/,
      /count: must be/,
      /on_dst_gap: must be/,
    ]) {
      assert.match(answer.errors, fault);
    }
    const json = await cron(...words, '--json');
    assert.equal(json.code, 2);
    assert.equal(json.errors, '');
    const { errors } = JSON.parse(json.output) as { errors: { field: string }[] };
    assert.deepEqual(errors.map(({ field }) => field).sort(), ['after', 'count', 'cron', 'on_dst_gap', 'time_zone']);
  });

  it('exits 2 for times that clocks always skip, as for dates that never come', async () => {
    const skipped = ['30 2 * 3 7L', '--time-zone', 'Europe/Berlin', '--on-dst-gap', 'skip'];
    for (const verb of ['next', 'explain']) {
      const answer = await cron(verb, ...skipped);
      assert.equal(answer.code, 2, verb);
      assert.match(answer.errors, /cron: never fires: .* clocks in Europe\/Berlin skip its times/);
      assert.equal((await cron(verb, ...skipped.slice(0, 3))).code, 0, verb);
    }
  });

  it('exits 2 without a zone, without quotes, and for what it does not know', async () => {
    assert.match((await cron('next', '* * * * *')).errors, /time_zone: is required/);
    assert.match((await cron('next', '*', '*', '*', '*', '*', '--time-zone', 'UTC')).errors, /in quotes/);
    assert.match((await cron('nxt', '* * * * *')).errors, /did you mean next\?/);
    assert.match(
      (await cron('next', '* * * * *', '--time-zon', 'UTC')).errors,
      /no option --time-zon; did you mean --time-zone\?/,
    );
    const unknown = await cron('next', '* * * * *', '--zone', 'UTC', '--json');
    assert.equal(unknown.code, 2);
    assert.match((JSON.parse(unknown.output) as { error: string }).error, /--zone/);
  });
});

describe('punctual cron explain', () => {
  it('says what an expression means, and what clock changes do to it', async () => {
    const { output } = await cron('explain', '30 2 * * *', ...NEW_YORK, '--count', '1');
    assert.equal(
      output,
      [
        '30 2 * * * in America/New_York: at 02:30, every day',
        '',
        'NEXT                  ON THE WALL',
        '2026-03-08T07:00:00Z  Sun 2026-03-08 03:00 -04:00',
        '',
        'Changes of the clocks that touch it:',
        ...['2026-03-08', '2027-03-14', '2028-03-12', '2029-03-11'].map(
          (day) =>
            `  ${day}T07:00:00Z  clocks go from ${day} 02:00 to ${day} 03:00; skipped: 02:30; runs once, when the gap ends`,
        ),
        '',
      ].join('\n'),
    );
  });

  it('tells all four things that can happen', async () => {
    const effect = async (expression: string, ...words: string[]): Promise<string> => {
      const { output } = await cron('explain', expression, '--time-zone', 'Australia/Lord_Howe', '--after', ...words);
      return /touch it:\n.*; (.*?; .*?)\n/.exec(output)?.[1] ?? output;
    };
    assert.equal(await effect('45 1 * * *', '2026-03-01T00:00:00Z'), 'shown twice: 01:45; runs the first time');
    assert.equal(
      await effect('*/5 * * * *', '2026-03-01T00:00:00Z'),
      'shown twice: 01:30, 01:35, 01:40, 01:45 and 2 more; runs both times',
    );
    assert.equal(await effect('15 2 * * *', '2026-05-01T00:00:00Z'), 'skipped: 02:15; runs once, when the gap ends');
    assert.equal(await effect('15 * * * *', '2026-05-01T00:00:00Z'), 'skipped: 02:15; not made up for');
    assert.match(await effect('0 12 * * *', '2026-05-01T00:00:00Z'), /No change of the clocks touches it/);
  });

  for (const [expression, meaning] of Object.entries({
    '@hourly': 'minute 0 of every hour, every day',
    '*/15 * * * *': 'minutes 0, 15, 30 and 45 of every hour, every day',
    '*/5 9-17 * * 1-5':
      'minutes 0, 5, 10 ... 55 of hours 9 to 17, on Mondays, Tuesdays, Wednesdays, Thursdays and Fridays',
    '0 9,17 1,15 * *': 'at 09:00 and 17:00, on days 1 and 15 of the month',
    '30 0 12 L * *': 'at 12:00:30, on the last day of the month',
    '0 0 13 * 5': 'at 00:00, on day 13 of the month, and on Fridays',
    // Either of two day fields is enough, so that one which names every day makes the other say nothing.
    '0 0 1-31 * 5': 'at 00:00, every day',
    '0 0 13 * 0-6': 'at 00:00, every day',
    '0 0 1,15 2 0-7': 'at 00:00, every day, in February',
    '0 0 1-31 * 5#1': 'at 00:00, every day',
    '0 0 1-31,L * 1L': 'at 00:00, every day',
    '0 0 L * 0,1,2,3,4,5,6': 'at 00:00, every day',
    '0 0 1-31 * */2': 'at 00:00, on Tuesdays, Thursdays, Saturdays and Sundays',
    '0 0 */1 * 5': 'at 00:00, on Fridays',
    '0 0 * * 1#1,mon#1': 'at 00:00, on the first Monday of the month',
    '0 0 */2 * 5': 'at 00:00, on days 1, 3, 5 ... 31 of the month, where that is one of Fridays',
    '0 0 * jan,jul 1#2,5L':
      'at 00:00, on the second Monday of the month and the last Friday of the month, in January and July',
    '* * * * * *': 'every second of every minute of every hour, every day',
  })) {
    it(`${expression}: ${meaning}`, async () => {
      const { output } = await cron('explain', expression, '--time-zone', 'UTC', '--json');
      assert.equal((JSON.parse(output) as { meaning: string }).meaning, meaning);
    });
  }
});
