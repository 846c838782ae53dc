/** A JVM that was just started triples its rate within seconds: it is driven until a window brings no more than this. */
const WARM_GROWTH = 1.1;

/** Measures again and again until the rate hardly grows any more; at most so many times. Returns how often. */
export async function untilWarm(windowsMax: number, measureRate: () => Promise<number>): Promise<number> {
  let before = 0;
  for (let windows = 1; windows < windowsMax; windows += 1) {
    const rate = await measureRate();
    if (rate < before * WARM_GROWTH) return windows;
    before = rate;
  }
  await measureRate();
  return windowsMax;
}
