// In some seeds a queue may have few jobs running at once, from before the first of them on: never more, whatever goes wrong.

import { JobStatus } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { defaultSettings } from '../../services/core/domain/queue-settings.ts';
import type { MemoryStores } from '../support/memory-store.ts';
import type { Chance } from './chance.ts';
import type { Report } from './violation.ts';
import { LEASE_QUEUE, STREAM_QUEUE } from './workers.ts';

const LIMITED_SEEDS = 0.25;

export class RunningLimit {
  readonly #report: Report;
  readonly #running = new Set<string>();
  #limit: { readonly queue: string; readonly most: number } | null = null;

  constructor({ stores, chance, report }: { stores: MemoryStores; chance: Chance; report: Report }) {
    this.#report = report;
    if (!chance.happens(LIMITED_SEEDS)) return;
    const queue = chance.pick([STREAM_QUEUE, LEASE_QUEUE]);
    const most = chance.pick([1, 2, 4]);
    this.#limit = { queue, most };
    const next = { ...defaultSettings(queue), maxRunning: most, revision: 1 };
    void stores.queues.change({ next, token: 'from the first moment on' });
  }

  /** A row of a job has changed. */
  changed({ jobId, queue, status }: JobRow): void {
    if (queue !== this.#limit?.queue || status !== JobStatus.running) {
      this.#running.delete(jobId);
      return;
    }
    this.#running.add(jobId);
    if (this.#running.size <= this.#limit.most) return;
    const detail = `${[...this.#running].join(', ')} run, and ${queue} may have ${this.#limit.most}`;
    this.#report({ rule: 'more jobs run than their queue may have', detail, subject: jobId });
  }

  /** Before the queue's setting is taken away. */
  lift(): void {
    this.#limit = null;
  }
}
