import { PRIORITIES, type Priority } from '../domain/job-status.ts';
import type { ShardRole } from '../ports/shard-leases.ts';

/**
 * Every name on the bus. The prefix (letters, digits, _) keeps several installations apart on one server: it stands before
 * every subject, stream and bucket. Consumers live inside their stream and need none.
 */
export class BusNames {
  readonly prefix: string;

  constructor(prefix = '') {
    if (!/^[A-Za-z0-9_]*$/.test(prefix)) throw new RangeError(`a bus prefix is letters, digits and _, got ${prefix}`);
    this.prefix = prefix;
  }

  /** One stream for all queues: K > 1 is needed beyond about 66 queues of three consumers each. */
  streamOf(_queue: string): string {
    return `${this.prefix}READY_0`;
  }

  readySubject(queue: string, priority: Priority): string {
    return `${this.prefix}ready.${queue}.${priority}`;
  }

  /** All subjects of a queue, or of all queues. */
  readySubjects(queue?: string): string {
    return `${this.prefix}ready.${queue ?? '*'}.*`;
  }

  /** What a subject of theirs is for; null for any other. */
  readyPlaceOf(subject: string): { readonly queue: string; readonly priority: Priority } | null {
    if (!subject.startsWith(`${this.prefix}ready.`)) return null;
    const [queue = '', name] = subject.slice(`${this.prefix}ready.`.length).split('.');
    const priority = PRIORITIES.find((each) => each === name);
    return priority === undefined ? null : { queue, priority };
  }

  readyConsumer(queue: string, priority: Priority): string {
    return `q_${queue}_p_${priority}`;
  }

  /** Where messages are asked of the consumer. */
  nextSubject(queue: string, priority: Priority): string {
    return `$JS.API.CONSUMER.MSG.NEXT.${this.streamOf(queue)}.${this.readyConsumer(queue, priority)}`;
  }

  hintSubject(shard: number): string {
    return `${this.prefix}due.${shard}`;
  }

  heldSubject(): string {
    return `${this.prefix}held`;
  }

  bucket(bucket: Bucket): string {
    return `${this.prefix}${bucket}`;
  }

  bucketStream(bucket: Bucket): string {
    return `KV_${this.bucket(bucket)}`;
  }

  /** The subject of a key, or with `>` in place of its name of all keys of the role. */
  keySubject(bucket: Bucket, role: ShardRole, name: string | number): string {
    return `$KV.${this.bucket(bucket)}.${role}.${name}`;
  }

  /** Where the server republishes what it stored under keySubject, expiry markers included. */
  changeSubject(bucket: Bucket, role: ShardRole): string {
    return `${this.changesOf(bucket)}.${role}.>`;
  }

  changesOf(bucket: Bucket): string {
    return `${this.prefix}changed.${bucket}`;
  }
}

export type Bucket = 'leases' | 'members';
