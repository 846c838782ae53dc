import { DEAD_RETENTION_DEFAULT_DAYS } from '../domain/limits.ts';
import { RETENTION_DEFAULT, type RetentionTerms } from '../domain/queue-settings.ts';
import type { AuditLog } from '../ports/audit-log.ts';
import type { Clock } from '../ports/clock.ts';
import type { HeldStore } from '../ports/held-store.ts';
import type { HistoryStore } from '../ports/history-store.ts';
import type { CohortStore, EndsReader, JobReader, StateReader, TermsReader } from '../ports/job-store.ts';
import type { KeyStore } from '../ports/key-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { QueueCountStore } from '../ports/queue-count-store.ts';
import type { QueueStore } from '../ports/queue-store.ts';
import type { ScheduleIndex } from '../ports/schedule-index.ts';
import type { ScheduleNames } from '../ports/schedule-names.ts';
import type { ScheduleReader, ScheduleRunStore, ScheduleStore } from '../ports/schedule-store.ts';
import type { SlotStore } from '../ports/slot-store.ts';
import type { SettingsStore } from '../ports/settings-store.ts';
import type { CursorStore, TimerStore } from '../ports/timer-store.ts';
import { createCohortStore, createScheduleStore } from './cohort-store.ts';
import { createHeldStore } from './held-store.ts';
import { createHistoryStore } from './history-store.ts';
import { createAuditLog } from './audit-log.ts';
import { createKeyStore } from './key-store.ts';
import { createOperationStore } from './operation-store.ts';
import { createQueueCountStore } from './queue-count-store.ts';
import { createQueueStore } from './queue-store.ts';
import { createScheduleIndex } from './schedule-index.ts';
import { createScheduleNames } from './schedule-names.ts';
import { createScheduleRunStore } from './schedule-run-store.ts';
import type { Session } from './session.ts';
import { createSlotStore } from './slot-store.ts';
import { createSettingsStore } from './settings-store.ts';
import { createCursorStore, createTimerStore } from './timer-store.ts';

export interface Stores {
  /** For core/rounds alone: everybody else submits operations there. */
  readonly cohorts: CohortStore;
  readonly jobs: JobReader & TermsReader & StateReader & EndsReader;
  /** For core/rounds alone, too. */
  readonly scheduleCohorts: ScheduleStore;
  readonly schedules: ScheduleReader;
  readonly scheduleRuns: ScheduleRunStore;
  readonly scheduleNames: ScheduleNames;
  readonly scheduleIndex: ScheduleIndex;
  /** Written through core/timers alone. */
  readonly timers: TimerStore;
  readonly cursors: CursorStore;
  readonly history: HistoryStore;
  readonly keys: KeyStore;
  readonly operations: OperationStore;
  readonly settings: SettingsStore;
  readonly queues: QueueStore;
  readonly queueCounts: QueueCountStore;
  readonly slots: SlotStore;
  readonly held: HeldStore;
  readonly audit: AuditLog;
}

export interface StoresParts {
  readonly clock: Clock;
  /** Where there is one already: whoever tells `retentionOf` reads the settings there. */
  readonly queues?: QueueStore;
  readonly retentionOf?: (queue: string) => RetentionTerms;
}

/** One of each per process: rows of one partition are grouped inside a store. */
export function createStores(session: Session, parts: StoresParts): Stores {
  const { clock, queues = createQueueStore(session), retentionOf = () => RETENTION_DEFAULT } = parts;
  const jobs = createCohortStore(session);
  const schedules = createScheduleStore(session);
  return {
    cohorts: jobs,
    jobs,
    scheduleCohorts: schedules,
    schedules,
    scheduleRuns: createScheduleRunStore(session, DEAD_RETENTION_DEFAULT_DAYS),
    scheduleNames: createScheduleNames(session),
    scheduleIndex: createScheduleIndex(session),
    timers: createTimerStore(session),
    cursors: createCursorStore(session),
    history: createHistoryStore(session, retentionOf),
    keys: createKeyStore(session, clock),
    operations: createOperationStore(session, clock),
    settings: createSettingsStore(session),
    queues,
    queueCounts: createQueueCountStore(session, clock),
    slots: createSlotStore(session),
    held: createHeldStore(session),
    audit: createAuditLog(session),
  };
}
