/** A JVM that was just started triples its rate within seconds, and again within a minute, with rests between. */
const WARM_GROWTH = 1.1;
const FLAT_WINDOWS = 3;

/** Measures again and again until the best rate has hardly grown for some windows; at most so many times. Returns how often. */
export async function untilWarm(windowsMax: number, measureRate: () => Promise<number>): Promise<number> {
  let best = 0;
  let flat = 0;
  for (let windows = 1; windows < windowsMax; windows += 1) {
    const rate = await measureRate();
    flat = rate < best * WARM_GROWTH ? flat + 1 : 0;
    if (flat === FLAT_WINDOWS) return windows;
    best = Math.max(best, rate);
  }
  await measureRate();
  return windowsMax;
}
