// Design section 4: ids say where a row lives.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  COHORT_ENTROPY_BYTES,
  cohortOf,
  memberOf,
  isJobId,
  isScheduleId,
  jobCohort,
  memberId,
  occurrenceId,
  occurrenceOf,
  scheduleCohort,
  shardOf,
} from '../../services/core/domain/ids.ts';

const CROCKFORD = '0123456789abcdefghjkmnpqrstvwxyz';

const entropies = fc.uint8Array({ minLength: COHORT_ENTROPY_BYTES, maxLength: COHORT_ENTROPY_BYTES });
const cohortNames = fc.string({ unit: fc.constantFrom(...Array.from(CROCKFORD)), minLength: 13, maxLength: 13 });
const members = fc.integer({ min: 0, max: 63 });
const slots = fc
  .date({ min: new Date('1970-01-01'), max: new Date('2999-12-31'), noInvalidDate: true })
  .map((date) => `${date.toISOString().slice(0, 19)}Z`);

/** An id of each of the three kinds with the partition that the design gives it. */
const placedIds = fc
  .tuple(cohortNames, members, slots)
  .chain(([name, member, slot]) =>
    fc.constantFrom(
      { id: memberId(`j_${name}`, member), cohort: `j_${name}`, isJob: true },
      { id: memberId(`s_${name}`, member), cohort: `s_${name}`, isJob: false },
      { id: `${memberId(`s_${name}`, member)}@${slot}`, cohort: `s_${name}@${slot}`, isJob: true },
    ),
  );

describe('ids', () => {
  it('lead to the partition of jobs, schedules and occurrences by string work alone', () => {
    fc.assert(
      fc.property(placedIds, ({ id, cohort, isJob }) => {
        assert.equal(cohortOf(id), cohort);
        assert.equal(isJobId(id), isJob);
        assert.equal(isScheduleId(id), !isJob);
      }),
    );
  });

  it('name the schedule and the slot of an occurrence', () => {
    const placed = fc.tuple(cohortNames, members, slots);
    fc.assert(
      fc.property(placed, ([name, member, slot]) => {
        const scheduleId = memberId(`s_${name}`, member);
        const at = Date.parse(slot);
        const id = occurrenceId(scheduleId, at);
        assert.deepEqual([id, occurrenceOf(id)], [`${scheduleId}@${slot}`, { scheduleId, slot: at }]);
        assert.throws(() => occurrenceId(scheduleId, at + 1), RangeError);
        for (const other of [scheduleId, memberId(`j_${name}`, member), '']) assert.equal(occurrenceOf(other), null);
      }),
    );
    for (const slot of [NaN, Date.UTC(10_000, 0), -1e14]) {
      assert.throws(() => occurrenceId('s_0123456789abc_00', slot), RangeError);
    }
    assert.ok(isScheduleId(memberId(scheduleCohort(new Uint8Array(COHORT_ENTROPY_BYTES)), 0)));
  });

  it('give a cohort 64 members, each a different id, and no more', () => {
    fc.assert(
      fc.property(entropies, (entropy) => {
        const cohort = jobCohort(entropy);
        const ids = Array.from({ length: 64 }, (_, member) => memberId(cohort, member));
        assert.equal(new Set(ids).size, 64);
        for (const id of ids) assert.equal(cohortOf(id), cohort);
        assert.deepEqual(ids.map(memberOf), Array.from(ids.keys()));
        // Lists sort by id: the order of the members is the order of their text.
        assert.deepEqual(ids.toSorted(), ids);
      }),
      { numRuns: 20 },
    );
    for (const member of [-1, 64, 0.5, NaN, Infinity]) {
      assert.throws(() => memberId('j_0000000000000', member), RangeError);
    }
  });

  it('keep at least 60 random bits apart', () => {
    fc.assert(
      fc.property(entropies, fc.nat(12), fc.integer({ min: 1, max: 31 }), (entropy, at, change) => {
        const other = Uint8Array.from(entropy);
        other[at] = other[at]! ^ change;
        assert.notEqual(jobCohort(other), jobCohort(entropy));
      }),
    );
    assert.ok(COHORT_ENTROPY_BYTES * 5 >= 60);
    assert.throws(() => jobCohort(new Uint8Array(COHORT_ENTROPY_BYTES - 1)), RangeError);
  });

  it('are refused with a RangeError, and nothing else, when one character is wrong', () => {
    const digits = '0123456789';
    // What may stand at each place of s_<13>_<2>@YYYY-MM-DDThh:mm:ssZ; a job has no slot.
    const allowed = (text: string, at: number): string => {
      if (at === 0) return text.includes('@') ? 's' : 'js';
      if (at === 1 || at === 15) return '_';
      if (at === 16) return '01';
      if (at <= 17) return CROCKFORD;
      return '@dddd-dd-ddTdd:dd:ddZ'[at - 18]!.replace('d', digits);
    };
    fc.assert(
      fc.property(
        placedIds,
        fc.nat(),
        fc.oneof(
          fc.constantFrom(...Array.from(`${CROCKFORD}iloujsJSZT_@-:. \n`)),
          fc.string({ minLength: 1, maxLength: 1 }),
        ),
        ({ id }, place, character) => {
          const at = place % id.length;
          const changed = id.slice(0, at) + character + id.slice(at + 1);
          if (allowed(id, at).includes(character)) assert.doesNotThrow(() => cohortOf(changed));
          else assert.throws(() => cohortOf(changed), RangeError);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('are refused with a RangeError, and nothing else, when they are garbage', () => {
    const ids = placedIds.map(({ id }) => id);
    const garbage = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.tuple(ids, ids).map(([one, other]) => one + other),
      fc.tuple(ids, fc.nat()).map(([id, length]) => id.slice(0, length % 17)),
    );
    fc.assert(
      fc.property(garbage, (text) => {
        assert.throws(() => cohortOf(text), RangeError);
        assert.equal(isJobId(text), false);
      }),
    );
    const job = 'j_0123456789abc_0z';
    for (const text of [
      '',
      'j_',
      `${job}\n`,
      ` ${job}`,
      job.toUpperCase(),
      `${job}@2026-11-15T06:00:00Z`,
      `${job}_00`,
    ]) {
      assert.throws(() => cohortOf(text), RangeError, text);
      assert.equal(isJobId(text), false, text);
    }
  });
});

describe('shards', () => {
  it('are the first four bytes of SHA-256 modulo their number', () => {
    // From another implementation: a stored row must keep its shard for ever.
    assert.equal(shardOf('j_0000000000000', 64), 63);
    assert.equal(shardOf('j_zzzzzzzzzzzzz', 64), 7);
    assert.equal(shardOf('s_0123456789abc', 1_000), 666);
    assert.equal(shardOf('s_0123456789abc@2026-11-15T06:00:00Z', 64), 41);
    fc.assert(fc.property(cohortNames, (name) => shardOf(`j_${name}`, 1) === 0));
  });

  it('get 20,000 cohorts evenly, even of entropy that only counts up', () => {
    const cohorts = 20_000;
    const shards = 64;
    const loads = new Array<number>(shards).fill(0);
    for (let index = 0; index < cohorts; index++) {
      const entropy = new Uint8Array(COHORT_ENTROPY_BYTES);
      new DataView(entropy.buffer).setUint32(0, (index % 32) | (((index >> 5) % 32) << 8) | ((index >> 10) << 16));
      loads[shardOf(jobCohort(entropy), shards)]! += 1;
    }
    const expected = cohorts / shards;
    const chiSquare = loads.reduce((sum, load) => sum + (load - expected) ** 2 / expected, 0);
    // 63 degrees of freedom: mean 63, deviation 11.2; an even spread passes 120 once in 50,000 tries.
    assert.ok(chiSquare < 120, `chi square ${chiSquare}`);
  });
});
