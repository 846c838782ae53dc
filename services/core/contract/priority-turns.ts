/** Of so many jobs taken from a queue one at least is of each lower priority that waits, so that none starves. */
export const PRIORITY_TURNS = 10;

/**
 * In which order priorities are asked at a turn (0, 1, 2, ...): the first ones first, except that each lower one begins in one
 * turn out of PRIORITY_TURNS. @param priorities in the order in which they are wanted.
 */
export function priorityOrder<Priority>(priorities: readonly Priority[], turn: number): readonly Priority[] {
  const favoured = favouredAt(priorities.length, turn);
  const [first] = priorities.slice(favoured, favoured + 1);
  return first === undefined || favoured === 0
    ? priorities
    : [first, ...priorities.filter((_, index) => index !== favoured)];
}

export interface PriorityStep<Priority> {
  readonly priority: Priority;
  readonly most: number;
}

/**
 * The same for `max` jobs taken in one go, from the given turn on: first the shares of the lower priorities, as far as their
 * turns are among these, then as many as there is room for in order.
 */
export function prioritySteps<Priority>(
  priorities: readonly Priority[],
  max: number,
  turn: number,
): readonly PriorityStep<Priority>[] {
  const shares = priorities.map(() => 0);
  for (let taken = 0; taken < max; taken += 1) {
    const favoured = favouredAt(priorities.length, turn + taken);
    shares[favoured] = (shares[favoured] ?? 0) + 1;
  }
  const favours = priorities.flatMap((priority, index) => {
    const most = index === 0 ? 0 : (shares[index] ?? 0);
    return most === 0 ? [] : [{ priority, most }];
  });
  return [...favours, ...priorities.map((priority) => ({ priority, most: max }))];
}

/** The index of the one that begins: the last turns of each round belong to the lower ones. */
function favouredAt(count: number, turn: number): number {
  const left = PRIORITY_TURNS - 1 - (turn % PRIORITY_TURNS);
  return left < count - 1 ? left + 1 : 0;
}
