// node:test over several groups of files, one group after the other, with one summary of them all.

import { run } from 'node:test';
import { type TestEvent, spec } from 'node:test/reporters';
import { pipeline } from 'node:stream/promises';

export interface TestGroup {
  readonly files: readonly string[];
  /** How many files run at once. */
  readonly concurrency: number;
}

export interface RunOptions {
  /** Of one test that sets no limit of its own. */
  readonly timeoutMs: number;
  readonly namePattern: string | undefined;
  readonly stopping: AbortSignal;
}

/** Reports to standard output as `node --test` does, the summary last. True if nothing failed. */
export async function runTestFiles(groups: readonly TestGroup[], options: RunOptions): Promise<boolean> {
  let passed = true;
  async function* events(): AsyncGenerator<TestEvent> {
    const totals = new Map<string, number>();
    let summary: TestEvent | undefined;
    for (const { files, concurrency } of groups.filter((group) => group.files.length > 0)) {
      const group = run({
        files: [...files],
        concurrency,
        timeout: options.timeoutMs,
        signal: options.stopping,
        ...(options.namePattern !== undefined && { testNamePatterns: [options.namePattern] }),
      });
      for await (const event of group as AsyncIterable<TestEvent>) {
        // What has no file sums up the group: lines such as "tests 38", and the event that makes the reporter list failures.
        if (event.type === 'test:diagnostic' && event.data.file === undefined) addTo(totals, event.data.message);
        else if (event.type === 'test:summary' && event.data.file === undefined) {
          passed &&= event.data.success;
          summary = event;
        } else yield event;
      }
    }
    if (summary !== undefined) yield summary;
    for (const [name, total] of totals) {
      yield { type: 'test:diagnostic', data: { nesting: 0, level: 'info', message: `${name} ${total}` } };
    }
  }
  await pipeline(events(), new spec(), process.stdout, { end: false });
  return passed;
}

function addTo(totals: Map<string, number>, line: string): void {
  const [name = '', number] = line.split(' ');
  totals.set(name, (totals.get(name) ?? 0) + Number(number));
}
