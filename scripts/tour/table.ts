// The live table: drawn over itself on a terminal, printed once at the end elsewhere.

export interface Row {
  readonly what: string;
  readonly jobId: string;
  readonly due: string;
  readonly startLag: string;
  readonly attempts: string;
  readonly status: string;
}

const COLUMNS = [
  ['what', 13],
  ['jobId', 19],
  ['due', 13],
  ['startLag', 21],
  ['attempts', 9],
  ['status', 0],
] as const satisfies readonly (readonly [keyof Row, number])[];
const HEAD: Row = {
  what: 'job',
  jobId: 'id',
  due: 'due (UTC)',
  startLag: 'start lag',
  attempts: 'attempts',
  status: 'status',
};

export class LiveTable {
  readonly #onTerminal = process.stdout.isTTY;
  #drawnLines = 0;

  draw(rows: readonly Row[]): void {
    if (!this.#onTerminal) return;
    if (this.#drawnLines > 0) process.stdout.write(`\u001b[${this.#drawnLines}A\u001b[J`);
    this.#print(rows);
  }

  finish(rows: readonly Row[]): void {
    if (this.#onTerminal) this.draw(rows);
    else this.#print(rows);
  }

  #print(rows: readonly Row[]): void {
    const lines = [HEAD, ...rows].map(line);
    process.stdout.write(`${lines.join('\n')}\n`);
    this.#drawnLines = lines.length;
  }
}

function line(row: Row): string {
  return COLUMNS.map(([name, width]) => row[name].padEnd(width))
    .join(' ')
    .trimEnd();
}
