// For tests in which no schedule has a part.

import type { Successors } from '../../services/core/moves/overlap-queue.ts';
import type { ScheduleFirer } from '../../services/dispatcher/schedule-firer.ts';

export const noSuccessors: Successors = { hurryAfter: () => Promise.resolve() };

export const noSchedules: Pick<ScheduleFirer, 'fire'> = {
  fire: (scheduleIds) => Promise.resolve(new Map(scheduleIds.map((scheduleId) => [scheduleId, 'absent']))),
};
