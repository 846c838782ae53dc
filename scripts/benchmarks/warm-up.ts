/** A JVM that was just started triples its rate within seconds, and again within a minute, with rests between. */
const WARM_GROWTH = 1.1;
const FLAT_WINDOWS = 3;

/** Measures again and again until some windows in a row have brought no more than the best one before; at most so many times. Returns how often. */
export async function untilWarm(windowsMax: number, measureRate: () => Promise<number>): Promise<number> {
  let best = 0;
  let flat = 0;
  for (let windows = 1; windows < windowsMax; windows += 1) {
    const rate = await measureRate();
    const hasGrown = rate >= best * WARM_GROWTH;
    if (hasGrown) best = rate;
    flat = hasGrown ? 0 : flat + 1;
    if (flat === FLAT_WINDOWS) return windows;
  }
  await measureRate();
  return windowsMax;
}
