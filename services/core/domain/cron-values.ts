import { CronExpressionParser } from 'cron-parser';

/** Stand-ins for the fields that are not asked about, in their order: one value each is the least work, and 31 January is a date. */
const OTHERS = { second: '0', minute: '0', hour: '0', dayOfMonth: '1', month: '1', dayOfWeek: '*' } as const;
export type CronFieldName = keyof typeof OTHERS;

/** Numbers from one to another, both included, every `step`th of them. */
export interface CronRange {
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

/** The items that schedules use are few and come again and again; reading one takes cron-parser 0.5 ms. */
const KEPT_MAX = 5_000;
const kept = new Map<string, readonly number[]>();

/**
 * The values that one item of a field names, as cron-parser has them. It is asked for one checked item at a time, in numbers and
 * on its own: lists that name a value twice, dates that never come and H are not its to judge (decision
 * 0010). Throws Error on a range that is none of the field.
 */
export function valuesOf(field: CronFieldName, { min, max, step }: CronRange): readonly number[] {
  const item = min === max ? String(min) : `${min}-${max}/${step}`;
  const key = `${field} ${item}`;
  const known = kept.get(key);
  if (known !== undefined) return known;
  const expression = Object.values({ ...OTHERS, [field]: item }).join(' ');
  const { fields } = CronExpressionParser.parse(expression, { tz: 'UTC' });
  const values = fields[field].values.map(Number);
  if (kept.size >= KEPT_MAX) kept.clear();
  kept.set(key, values);
  return values;
}
