/** The candidate that a mistyped word most likely meant; undefined when none is near enough to be named. */
export function closest(word: string, candidates: readonly string[]): string | undefined {
  const edits = candidates.map((candidate) => ({ candidate, distance: editDistance(word, candidate) }));
  const best = edits.sort((one, other) => one.distance - other.distance)[0];
  return best !== undefined && best.distance <= Math.ceil(best.candidate.length / 4) ? best.candidate : undefined;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
