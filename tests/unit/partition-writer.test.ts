import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StoreError } from '../../services/core/ports/store-error.ts';
import { PartitionWriter } from '../../services/core/storage/partition-writer.ts';

interface Sent {
  readonly rows: readonly string[];
  readonly acknowledge: () => void;
  readonly fail: (error: Error) => void;
}

/** Rows are texts whose first letter is their partition; each write waits to be answered by the test. */
function start(): { writer: PartitionWriter<string>; sent: Sent[] } {
  const sent: Sent[] = [];
  const writer = new PartitionWriter<string>(
    (row) => row.charAt(0),
    (rows) =>
      new Promise((resolve, reject) => {
        sent.push({ rows, acknowledge: resolve, fail: reject });
      }),
  );
  return { writer, sent };
}

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe('a partition writer', () => {
  it('writes together what several callers write in one turn of the event loop', async () => {
    const { writer, sent } = start();
    const writes = [writer.write(['a1']), writer.write(['a2', 'b1'])];
    await settled();
    assert.deepEqual(
      sent.map(({ rows }) => rows),
      [['a1', 'a2'], ['b1']],
    );
    for (const { acknowledge } of sent) acknowledge();
    await Promise.all(writes);
  });

  it('writes to an idle partition at once, and all that came meanwhile together', async () => {
    const { writer, sent } = start();
    const writes = [writer.write(['a1']), writer.write(['b1'])];
    await settled();
    assert.deepEqual(
      sent.map(({ rows }) => rows),
      [['a1'], ['b1']],
    );
    writes.push(writer.write(['a2']), writer.write(['a3']));
    await settled();
    assert.equal(sent.length, 2);
    sent[0]!.acknowledge();
    await writes[0];
    assert.deepEqual(sent[2]?.rows, ['a2', 'a3']);
    sent[1]!.acknowledge();
    sent[2].acknowledge();
    await Promise.all(writes);
    const last = writer.write(['a4']);
    await settled();
    assert.deepEqual(sent[3]?.rows, ['a4']);
    sent[3].acknowledge();
    await last;
  });

  it('resolves a call only when each of its rows is acknowledged', async () => {
    const { writer, sent } = start();
    let done = false;
    const write = writer.write(['a1', 'b1', 'c1']).then(() => (done = true));
    await settled();
    sent[0]!.acknowledge();
    sent[2]!.acknowledge();
    await settled();
    assert.equal(done, false);
    sent[1]!.acknowledge();
    await write;
  });

  it('writes at most 100 rows at once', async () => {
    const { writer, sent } = start();
    const write = writer.write(Array.from({ length: 250 }, (_, index) => `a${index}`));
    for (let index = 0; index < 3; index++) {
      await settled();
      sent[index]!.acknowledge();
    }
    await write;
    assert.deepEqual(
      sent.map(({ rows }) => rows.length),
      [100, 100, 50],
    );
  });

  it('rejects those whose rows were in the failed write, and goes on with the others', async () => {
    const { writer, sent } = start();
    const first = writer.write(['a1']);
    await settled();
    const second = writer.write(['a2']);
    sent[0]!.fail(new StoreError('unknown', 'no answer'));
    await assert.rejects(first, StoreError);
    sent[1]!.acknowledge();
    await second;
  });

  it('refuses more than it can hold', async () => {
    const { writer, sent } = start();
    const many = writer.write(Array.from({ length: 50_000 }, (_, index) => `a${index}`));
    await assert.rejects(writer.write(['b1']), { kind: 'overloaded' });
    for (let index = 0; index < 500; index++) {
      await settled();
      sent[index]!.acknowledge();
    }
    await many;
    const next = writer.write(['b1']);
    await settled();
    sent.at(-1)!.acknowledge();
    await next;
  });
});
