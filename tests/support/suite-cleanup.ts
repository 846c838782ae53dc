import { after } from 'node:test';
import type { Cleanup } from './servers.ts';

type Step = () => void | Promise<void>;

/** What a suite's `before` starts, its end stops, the last first. To be called in the body of `describe`. */
export function suiteCleanup(): Cleanup {
  const steps: Step[] = [];
  after(async () => {
    for (const step of steps.reverse()) await step();
  });
  return { after: (step) => void steps.push(step) };
}
