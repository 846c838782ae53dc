// Progress of slow steps, on standard error: standard output is for results.

const STILL_AT_IT_MS = 10_000;

/** Writes one line for people. */
export type Progress = (line: string) => void;

export const showProgress: Progress = (line) => process.stderr.write(`${line}\n`);
export const silent: Progress = () => undefined;

/** Runs one slow step: a line at its start, one each 10 s while it lasts, one at its end, with the seconds so far. */
export async function withProgress<T>(progress: Progress, title: string, step: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const elapsed = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(0)} s`;
  progress(`• ${title} ...`);
  const stillAtIt = setInterval(() => {
    progress(`  ${title} ... ${elapsed()}`);
  }, STILL_AT_IT_MS);
  try {
    const result = await step();
    progress(`✔ ${title} (${elapsed()})`);
    return result;
  } catch (error) {
    progress(`✖ ${title} (${elapsed()})`);
    throw error;
  } finally {
    clearInterval(stillAtIt);
  }
}
