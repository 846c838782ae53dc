import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, ServiceProcess } from './cluster.ts';
import { call, getJob, inParallel, until } from './rest.ts';

export interface SteadyLoad {
  /** The ids of all jobs that were answered with 201. */
  readonly accepted: readonly string[];
  /** How often each other status came; 0 stands for no answer. */
  readonly refused: ReadonlyMap<number, number>;
  stop(): Promise<void>;
}

/** What is owed after a standstill is not sent at once: thousands of open sockets would keep this process from anything else. */
const IN_FLIGHT_MAX = 500;

/** Posts a steady stream, half of it due now and half a second later, until told to stop; collects what was accepted. */
export function postSteadily(
  cluster: Cluster,
  { queue, jobsPerS }: { readonly queue: string; readonly jobsPerS: number },
): SteadyLoad {
  const accepted: string[] = [];
  const refused = new Map<number, number>();
  const inFlight = new Set<Promise<void>>();
  const stopping = new AbortController();
  let sent = 0;
  const post = async (): Promise<void> => {
    const api = cluster.apis[sent % cluster.apis.length] as ServiceProcess;
    const delay = sent % 2 === 0 ? {} : { delay_s: 1 };
    sent += 1;
    const answer = await call('POST', `${api.url}/jobs`, { queue, ...delay }).catch(() => undefined);
    if (answer?.status === 201) accepted.push(answer.body.job_id);
    else refused.set(answer?.status ?? 0, (refused.get(answer?.status ?? 0) ?? 0) + 1);
  };
  const loop = (async () => {
    const startedAt = Date.now();
    while (!stopping.signal.aborted) {
      while (sent < ((Date.now() - startedAt) / 1_000) * jobsPerS && inFlight.size < IN_FLIGHT_MAX) {
        const one = post();
        inFlight.add(one);
        void one.finally(() => inFlight.delete(one));
      }
      await sleep(10);
    }
  })();
  return {
    accepted,
    refused,
    stop: async () => {
      stopping.abort();
      await loop;
      await Promise.all(inFlight);
    },
  };
}

export async function assertAllSucceed(api: string, ids: readonly string[], withinMs: number): Promise<void> {
  const open = new Set(ids);
  await until(`all ${ids.length} accepted jobs succeeded`, withinMs, async () => {
    await inParallel([...open], 20, async (id) => {
      if ((await getJob(api, id)).status === 'succeeded') open.delete(id);
    });
    return open.size === 0 || undefined;
  }).catch(async (error: unknown) => {
    const examples = await inParallel([...open].slice(0, 3), 3, (id) => getJob(api, id));
    throw new Error(`${open.size} of ${ids.length} jobs did not end: ${JSON.stringify(examples)}`, { cause: error });
  });
}
