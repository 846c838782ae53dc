import { isJobId } from '../domain/ids.ts';
import { PRIORITIES } from '../domain/job-status.ts';
import type { ReadyMessage } from '../ports/ready-queue.ts';

/** The message as the JetStream contract has it: at most 512 bytes, never the payload. */
interface WireMessage {
  readonly v: 1;
  readonly job_id: string;
  readonly attempt: number;
  readonly run_at: string;
  readonly queue: string;
  readonly priority: string;
}

export function encodeReady({ jobId, attempt, runAt, queue, priority }: ReadyMessage): string {
  const wire: WireMessage = { v: 1, job_id: jobId, attempt, run_at: new Date(runAt).toISOString(), queue, priority };
  return JSON.stringify(wire);
}

/** Null for what is no ready message of version 1. */
export function decodeReady(text: string): ReadyMessage | null {
  let wire: Partial<WireMessage> | null;
  try {
    wire = JSON.parse(text) as Partial<WireMessage> | null;
  } catch {
    return null;
  }
  if (typeof wire !== 'object' || wire?.v !== 1) return null;
  const { job_id: jobId, attempt, run_at: at, queue } = wire;
  const priority = PRIORITIES.find((each) => each === wire.priority);
  const runAt = typeof at === 'string' ? Date.parse(at) : NaN;
  if (typeof jobId !== 'string' || !isJobId(jobId) || typeof queue !== 'string') return null;
  if (typeof attempt !== 'number' || !Number.isSafeInteger(attempt)) return null;
  if (priority === undefined || Number.isNaN(runAt)) return null;
  return { jobId, attempt, runAt, queue, priority };
}
