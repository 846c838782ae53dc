// Results of a benchmark: medians over several runs, and the table that says the same as the JSON.

/** A result: figures under names, nested. */
export type Report = { readonly [name: string]: ReportValue };
type ReportValue = number | string | Report;

/** Figure by figure; what is no figure is the same in all runs. */
export function medianReport<R extends object>(runs: readonly R[]): R {
  return medianValue(runs as readonly Report[]) as R;
}

function medianValue(values: readonly ReportValue[]): ReportValue {
  const [first] = values;
  if (typeof first === 'number') return median(values as readonly number[]);
  if (typeof first !== 'object') return first ?? '';
  const names = new Set((values as readonly Report[]).flatMap((value) => Object.keys(value)));
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      medianValue(
        (values as readonly Report[]).flatMap((value) => (name in value ? [value[name] as ReportValue] : [])),
      ),
    ]),
  );
}

/** Of an even number the lower one: a value that was measured. */
function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor((values.length - 1) / 2)] ?? NaN;
}

const NAME_WIDTH = 32;
const CELL_WIDTH = 10;

/** One figure a line; groups of the same figures become columns. */
export function tableOf(report: object, indent = ''): readonly string[] {
  return Object.entries(report as Report).flatMap(([name, value]): readonly string[] => {
    if (typeof value !== 'object') return [`${(indent + name).padEnd(NAME_WIDTH)} ${cell(value)}`];
    if (isColumns(value)) return ['', ...columns(indent + name, value as Readonly<Record<string, Report>>)];
    return ['', `${indent}${name}`, ...tableOf(value, `${indent}  `)];
  });
}

/** Groups that have the same names. */
function isColumns(value: Report): boolean {
  const members = Object.values(value);
  const [first] = members.map((member) => Object.keys(member).join());
  return members.every(
    (member) =>
      typeof member === 'object' &&
      Object.keys(member).join() === first &&
      Object.values(member).every((each) => typeof each !== 'object'),
  );
}

function columns(title: string, rows: Readonly<Record<string, Report>>): readonly string[] {
  const names = Object.keys(Object.values(rows)[0] ?? {});
  const line = (first: string, cells: readonly string[]): string =>
    `${first.padEnd(NAME_WIDTH)} ${cells.map((each) => each.padStart(CELL_WIDTH)).join(' ')}`;
  return [
    line(title, names),
    ...Object.entries(rows).map(([name, row]) => line(`  ${name}`, Object.values(row).map(text))),
  ];
}

function cell(value: number | string): string {
  return text(value).padStart(CELL_WIDTH);
}

function text(value: ReportValue | undefined): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'number') return '';
  if (Number.isInteger(value)) return String(value);
  return value.toPrecision(Math.abs(value) >= 100 ? 4 : 3);
}
