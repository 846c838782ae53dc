import type { Result } from '../../core/contract/problems.ts';
import type { ArmOptions } from '../../core/timers/timers.ts';
import { withStore } from './store-problems.ts';

/** What was surely not written goes to another cohort, hence other replicas, this many times. */
const OTHER_COHORTS_MAX = 2;

interface Places<Place> {
  choose(): Place;
  /** Nobody else is to be put there now. */
  leave(place: Place): void;
}

/** Writes what may lie anywhere: another place is better than waiting for one that the store cannot write; only the last is waited for. */
export async function inSomePlace<Place, T>(
  places: Places<Place>,
  write: (place: Place, options: ArmOptions) => Promise<Result<T>>,
): Promise<Result<T>> {
  for (let other = 0; ; other += 1) {
    const isLast = other === OTHER_COHORTS_MAX;
    const place = places.choose();
    const result = await withStore(() => write(place, { givesUpAtOnce: !isLast }));
    if (isLast || result.ok || result.problem.code !== 'store_unavailable') return result;
    places.leave(place);
  }
}
