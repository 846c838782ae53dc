/**
 * Every bound of the product, unit last. The API's limits are served by GET /limits and stand in schema/http/openapi.yaml;
 * tests hold the lists together.
 */

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

// What a caller may ask for.
export const QUEUE_NAME_PATTERN = '^[a-z0-9][a-z0-9_-]{0,63}$';
export const PAYLOAD_MAX_BYTES = 65_536;
export const JOB_BODY_MAX_BYTES = 96 * 1024;
export const BATCH_BODY_MAX_BYTES = 8 * 1024 * 1024;
export const WORKER_BODY_MAX_BYTES = 1024 * 1024;
export const OTHER_BODY_MAX_BYTES = 64 * 1024;
/** Payloads handed out in one answer. */
export const ANSWER_MAX_BYTES = 4 * 1024 * 1024;
export const JOB_BATCH_MAX_ITEMS = 1_000;
export const SCHEDULE_BATCH_MAX_ITEMS = 1_000;
export const WORKER_BATCH_MAX_ITEMS = 100;
export const HORIZON_DEFAULT_DAYS = 365;
/** More than enough to list every value of every field. */
export const CRON_MAX_CHARS = 1_024;
export const EVERY_MAX_S = 31_536_000;
export const PREVIEW_SLOTS_DEFAULT = 10;
export const PREVIEW_SLOTS_MAX = 1_000;
/** A preview names the clock changes of so long ahead, and so many of them: two years of most zones. */
export const CLOCK_CHANGES_AHEAD_MS = 10 * 365 * DAY_MS;
export const CLOCK_CHANGES_TOLD_MAX = 4;
/** In one call, which makes a job for each. */
export const BACKFILL_SLOTS_MAX = 1_000;
export const RUN_AT_PAST_MAX_MS = HOUR_MS;
export const JITTER_MAX_S = 86_400;
export const MAX_ATTEMPTS_DEFAULT = 5;
export const MAX_ATTEMPTS_MAX = 1_000;
export const TIMEOUT_DEFAULT_S = 60;
export const TIMEOUT_MAX_S = 86_400;
export const LEASE_DEFAULT_S = 30;
export const LEASE_MIN_S = 5;
export const LEASE_MAX_S = 900;
/** A worker heartbeats this many times within one lease. */
export const HEARTBEATS_PER_LEASE = 3;
export const RETRY_BASE_DEFAULT_S = 1;
export const RETRY_FACTOR_DEFAULT = 2;
export const RETRY_CAP_DEFAULT_S = 3_600;
export const LABELS_MAX = 16;
export const LABEL_KEY_MAX_CHARS = 63;
export const LABEL_VALUE_MAX_CHARS = 128;
export const IDEMPOTENCY_KEY_MAX_CHARS = 128;
/** A key is remembered this long after its request or its run_at, whichever is later. */
export const IDEMPOTENCY_KEY_KEPT_DAYS = 7;
export const ERROR_TEXT_MAX_BYTES = 2 * 1024;
export const RESULT_MAX_BYTES = 4 * 1024;
export const PROGRESS_MAX_BYTES = 1024;
export const CLAIM_ID_MAX_CHARS = 64;
export const LEASE_CALL_MAX_JOBS = 100;
export const LEASE_WAIT_DEFAULT_S = 5;
export const LEASE_WAIT_MAX_S = 20;
export const PAGE_SIZE_DEFAULT = 50;
export const PAGE_SIZE_MAX = 500;
export const LIST_WINDOW_MAX_MS = DAY_MS;
/** All that are kept, and the day at hand. */
export const DEAD_LETTERS_WINDOW_MAX_MS = 31 * DAY_MS;
export const SCHEDULE_RUNS_WINDOW_MAX_MS = 31 * DAY_MS;
export const ATTEMPTS_KEPT = 50;
export const READY_PER_QUEUE_MAX = 100_000;
/** Unless its settings say otherwise, dispatchers let so many jobs of a queue wait for a claim: more would only be looked after. */
export const READY_MAX_DEFAULT = 20_000;
/** Below this nobody asks how many of a queue wait: a queue in its everyday life costs no questions. */
export const READY_UNASKED_MAX = 2_000;

// Queues (design section 7).
export const QUEUES_CONFIGURED_MAX = 10_000;
/** The lowest rate: one start in so long. */
export const QUEUE_RATE_SLOWEST_S = 1_000;
export const QUEUE_RATE_MAX_PER_S = 100_000;
export const QUEUE_BURST_MAX = 100_000;
export const QUEUE_RUNNING_MAX = 1_000;
export const QUEUE_WAITING_MAX = 100_000_000;
export const QUEUE_RAMP_MAX_S = 86_400;
/** What a ramp begins with. */
export const QUEUE_RAMP_START_PERCENT = 10;
export const PAUSE_REASON_MAX_CHARS = 256;
/** How often every process looks whether a queue was changed. A change takes effect everywhere within 5 s. */
export const QUEUE_SETTINGS_EVERY_MS = 2 * SECOND_MS;

/** How soon a kill -9 may lose what a process has counted of jobs that wait. */
export const TALLIES_EVERY_MS = SECOND_MS;
/** How often the reaper counts the shards it owns, where that is cheap; the api keeps what it read for half as long. */
export const CENSUS_EVERY_MS = 10 * SECOND_MS;
/** A minute's count is wanted until the next minute ends. */
export const CENSUS_EVERY_MAX_MS = 55 * SECOND_MS;

// Cohorts and rounds (design section 4).
/** What comes faster than 250 a second is begun in groups so far apart at most (decisions/0019): creates, whose callers wait, and due rows. */
export const CREATES_APART_MAX_MS = 12;
export const WAKES_APART_MAX_MS = 30;
/** Jobs stored together: a Paxos round costs about the same for 1 row as for 64 rows of one partition. */
export const COHORT_SIZE = 64;
export const COHORT_OPEN_MAX_MS = SECOND_MS;
export const ROUND_MAX_ROWS = 64;
export const ROUND_MAX_BYTES = 1024 * 1024;
/** After a timed-out conditional write a late apply is possible for this long. */
export const LATE_APPLY_MS = 4 * SECOND_MS;
/** An operation that waited or was retried for this long is given up: dropped when surely unwritten, else unknown. */
export const OPERATION_DEADLINE_MS = 15 * SECOND_MS;
/** A timer's partition that too few replicas are there for is given up after this: its caller has an answer to give, and others to go on with. */
export const UNAVAILABLE_WAIT_MS = 2 * SECOND_MS;

// Timers (design section 6, rules 2, 3 and 5).
/** A due row whose minute ended longer ago than this may have been passed by its readers. */
export const DUE_MINUTE_PASSED_MS = 20 * SECOND_MS;
/** A deadline row nearer than this may be passed by its reader before it lands. */
export const DEADLINE_CLEARANCE_MS = SECOND_MS;
/** Where a timer that may have been passed is written again. */
export const REWRITE_AHEAD_MS = 10 * SECOND_MS;
/** Longer between choosing a timer and the end of its round: one more deadline row before anything is answered. */
export const ROUND_SLOW_MS = 20 * SECOND_MS;
export const SPARE_DEADLINE_AHEAD_MS = MINUTE_MS;
/** The last seconds of a timer table are read again and again: a row may land behind its reader. */
export const TRAILING_EDGE_MS = 5 * SECOND_MS;
/** So often; ticks in between read on from where the last one ended (decisions/0017). */
export const TRAILING_READ_EVERY_MS = 3 * SECOND_MS;
/** A closed minute gets its second look this long after its end. */
export const SECOND_LOOK_AFTER_MS = MINUTE_MS;

// Dispatcher (section 7).
export const TICK_MS = SECOND_MS;
/** How often queues that had no turn are asked again: their turns come no less evenly than this. */
export const BEAT_MS = SECOND_MS / 10;
export const READ_AHEAD_MS = 2 * SECOND_MS;
/** Timer rows of one shard in a scanner's hands: a process has many shards. */
export const SHARD_ROWS_IN_MEMORY_MAX = 2_000;
/** What all shards of a process may have besides, together: one with very many rows a second reads them in few goes. */
export const ROWS_POOL_MAX = 40_000;
/** A shard whose rows must wait reads so many of the newest besides, so that nobody waits behind them. */
export const NEWEST_ROWS_MAX = 500;
/** Due rows of one queue and priority that one process keeps in memory until it is their turn; more become held rows. */
export const TURN_ROWS_MAX = 20_000;
/** Of a queue with a rate it keeps no more than this much of it. */
export const TURN_AHEAD_MS = 2 * SECOND_MS;
/** A due row that waited so long for its turn becomes a held row, so that the cursor can pass it before its age pages (15 s). */
export const TURN_WAIT_MAX_MS = 10 * SECOND_MS;
/** What is taken from one queue before it is the next one's turn: one full round. */
export const TURN_ROWS = COHORT_SIZE;
/** Rounds, and rows in them, that one dispatcher has under way: what comes next waits no longer than these take. */
export const MOVING_COHORTS_MAX = 256;
export const MOVING_ROWS_MIN = 256;
export const MOVING_ROWS_FIRST = 1_000;
export const MOVING_ROWS_MAX = 4_000;
/** So many of them as arrive within this. */
export const MOVING_TIME_AIM_MS = 300;
/** Due rows of one queue from before a takeover whose jobs are read at a time, to see which were handled. */
export const SIFTING_MAX = 2_000;
/** Of all queues together: each may be a read of its own, and a process has room for so many. */
export const SIFTING_TOTAL_MAX = 3_000;
/** Held rows that are read ahead of their turn, and in one go. */
export const HELD_AHEAD_MAX = 4_000;
export const HELD_PAGE_ROWS = 1_000;
/** How often drained hours of held rows are looked for. */
export const HELD_DROP_EVERY_MS = 30 * SECOND_MS;
/** Due rows that one process is writing as held rows at a time. */
export const HOLDING_MAX = 10_000;
/** Dispatchers tell each second what they hold; what one told stands for so long. */
export const HELD_REPORT_STANDS_MS = 3 * SECOND_MS;
/** How many messages wait in the ready stream is asked no more often. */
export const READY_DEPTHS_KEPT_MS = SECOND_MS / 4;
/** A queue with a rate has no more unclaimed than it starts in so long: workers that come back start no more at once. */
export const READY_AHEAD_MS = 3 * SECOND_MS;
/**
 * Claims leave a queue with a rate so many times as much unclaimed, and take back what is beyond: several dispatchers whose views of
 * the stream are a moment old may publish twice of it, and each of them one job more where the rate is small.
 */
export const READY_KEPT_TIMES = 2;
export const READY_KEPT_MORE = 10;
/** Where it has more, claims let this part of its rate start all the same, in each api: nobody's worker finds nothing for long. */
export const OVER_RATE_PERCENT = 25;
/** While a queue has more than its rate allows, an api looks whether it still has that rate, no more often than this. */
export const OVER_RATE_LOOK_MS = SECOND_MS;
/** What is too many is taken back after this, also where the settings cannot be read. */
export const OVER_RATE_SEEN_MAX_MS = 2 * SECOND_MS;
/** Claims go by what the ready stream told so long ago, or wait for its word for a moment; while it tells nothing they go on. */
export const READY_DEPTHS_STAND_MS = SECOND_MS;
export const READY_DEPTHS_WAIT_MS = SECOND_MS / 4;
/** An hour of held rows is closed so long after its end: no due row is passed over into it any more. */
export const HELD_HOUR_CLOSED_MS = 10 * MINUTE_MS;
/** How long a due row whose job is not there yet is looked at again. */
export const ABSENT_JOB_GRACE_MS = 10 * SECOND_MS;
/** How long a failed publish is tried again before the second look owns it. */
export const PUBLISH_RETRY_MAX_MS = MINUTE_MS;
/** Ready messages kept by one process until the stream has them: about 25 MB. */
export const READY_BACKLOG_MAX = 50_000;
/** With more than so many waiting a new job is not born enqueued: it would wait beside its due row without its protection. */
export const DIRECT_BACKLOG_MAX = 2_000;
export const CURSOR_SAVE_EVERY_MS = 3 * SECOND_MS;
/** A loaded cursor is never later than this before now, whatever clock saved it. */
export const CURSOR_REWIND_MS = MINUTE_MS;

// Schedules (section 9).
/** A slot that is decided later than this was missed, and on_missed says what becomes of it. */
export const MISSED_AFTER_MS = MINUTE_MS;
/** Once one slot was missed, so were the later ones that are late by more than this: one outage, one catch-up. */
export const LATE_IN_OUTAGE_MS = 10 * SECOND_MS;
export const MISSED_LIMIT_DEFAULT = 100;
export const MISSED_LIMIT_MAX = 1_000;
/** Occurrences of one schedule that wait for their predecessors. */
export const OVERLAP_WAITING_MAX = 100;
/** One that waits is looked at soon after it was made, for its predecessor may have ended meanwhile, and then this often. */
export const OVERLAP_FIRST_LOOK_MS = 10 * SECOND_MS;
export const OVERLAP_LOOK_MS = MINUTE_MS;
/** A firer that read a schedule longer ago reads it again before it decides a slot: a pause or a change is heeded within it. */
export const SCHEDULE_READ_FRESH_MS = SECOND_MS;

// Reaper (section 8).
export const ENQUEUED_LOOK_MIN_MS = MINUTE_MS;
export const ENQUEUED_LOOK_MAX_MS = HOUR_MS;
/** A waiting job's own message may be this much younger than the moment it was enqueued. */
export const PUBLISHED_SLACK_MS = 10 * SECOND_MS;
/**
 * Messages of jobs that stopped waiting without a claim are looked for each second, once a job stopped so long ago: its message may
 * be on its way to the stream, or about to be acknowledged.
 */
export const STALE_MESSAGES_EVERY_MS = SECOND_MS;
export const STALE_MESSAGE_AFTER_MS = 2 * SECOND_MS;
/** Such jobs that one process remembers: about 10 MB. */
export const STALE_NOTES_MAX = 50_000;
export const STALE_PAGE_MESSAGES = 1_000;
/** What it takes of each second, and a page more: ten pages are read in that, or two removed. */
export const STALE_RUN_MAX_MS = SECOND_MS / 4;
/** A lapse that loses although nothing changed is looked at again this much later, never at once. */
export const LAPSE_RETRY_MS = SECOND_MS;
/** Shards whose closed minutes are looked at together: after a flood each of them has thousands of rows. */
export const LOOKS_AT_ONCE = 8;
/** Rows that one look settles together, and how long it pauses for each of them while it is not late: all looks take 1,600 a second. */
export const LOOK_ROWS = 100;
export const LOOK_MS_PER_ROW = 5;
/** Deadline rows settled lately, of all shards of a process: three minutes of 1,000 a second. */
export const SETTLED_ROWS_KEPT_MAX = 200_000;
/** Claims whose worker was never heard of (a lost answer) that are not counted as tries. */
export const LOST_CLAIMS_MAX = 3;

/**
 * How long a finished job and its history are kept; a dead job longer, for it may be replayed. A queue's settings may
 * say otherwise, within these bounds.
 */
export const RETENTION_DEFAULT_DAYS = 7;
export const DEAD_RETENTION_DEFAULT_DAYS = 30;
export const RETENTION_MIN_DAYS = 1;
/** The census and the lists of dead letters reach back no further. */
export const RETENTION_MAX_DAYS = 30;
/** A timer row is swept so much later than its job may go at the earliest: nearly every job is over by then, and looked at once. */
export const RETENTION_SLACK_MS = HOUR_MS;
/** Shards whose old minutes are swept together: nobody waits for it. */
export const SWEEPS_AT_ONCE = 2;

// Bulk operations.
export const OPERATION_RATE_DEFAULT_PER_S = 100;
export const OPERATION_RATE_MAX_PER_S = 1_000;
/** By run_at: each of its minutes is read in every shard. */
export const OPERATION_WINDOW_MAX_MS = 7 * DAY_MS;
export const OPERATION_SHIFT_MAX_S = 31_536_000;
export const OPERATION_KEPT_DAYS = 30;
/** Of one process; the others wait for their turn. */
export const OPERATIONS_AT_ONCE_MAX = 16;
/** Jobs read and changed together: their payloads are in memory meanwhile. */
export const OPERATION_CHUNK_MAX_JOBS = 64;
export const OPERATION_SAVE_EVERY_MS = SECOND_MS;
/** Whoever runs an operation keeps a timer of it so far ahead: when the runner dies the next one begins then. */
export const OPERATION_LOOK_AHEAD_MS = 10 * SECOND_MS;
export const OPERATION_ERROR_FILTER_MAX_CHARS = 256;
/** How long a dry run counts before it answers with what it has. */
export const DRY_RUN_MAX_MS = 5 * SECOND_MS;
export const DRY_RUN_SAMPLES = 10;
/** Of the operations that moved a job, the last ones are known by their marks on it. */
export const BULK_MARKS_KEPT = 8;

// Shard leases (section 10).
export const SHARDS_DEFAULT = 64;
export const SHARD_LEASE_TTL_DEFAULT_MS = 6 * SECOND_MS;
export const SHARD_LEASE_RENEW_DEFAULT_MS = 1.5 * SECOND_MS;
/** An owner stops acting this long before its lease can lapse. */
export const SHARD_LEASE_SAFETY_MS = SECOND_MS;

// Clocks (section 10).
export const CLOCK_CHECK_EVERY_MS = 10 * SECOND_MS;
export const CLOCK_SKEW_WARN_MS = SECOND_MS;
/** Nobody acts by a clock that is off by so much; below it the slack of timers and cursors covers everything. */
export const CLOCK_SKEW_STOP_MS = 5 * SECOND_MS;

// Fsck.
/** The ring is read in so many parts, and told of after each. */
export const FSCK_RING_PARTS = 16;
export const FSCK_PAGE_ROWS_DEFAULT = 500;
export const FSCK_PAGE_ROWS_MAX = 5_000;
/** Some hundredths of what one node reads, so that it may run beside the real work. */
export const FSCK_ROWS_PER_S_DEFAULT = 2_000;
export const FSCK_ROWS_PER_S_MAX = 100_000;
/** Rows examined together: the timers of all of them are searched in one walk over the minutes. */
export const FSCK_BATCH_ROWS = 10_000;
/** What looks damaged is looked at again so much later: writes under way have landed by then. */
export const FSCK_GRACE_DEFAULT_MS = 10 * SECOND_MS;
export const FSCK_GRACE_MAX_MS = HOUR_MS;
/** How often a row that keeps changing while it is looked at is looked at again: somebody is at work on it. */
export const FSCK_LOOKS_MAX = 3;
/** No deadline row lies further ahead: waiting jobs are looked at each hour at least, leases are shorter. */
export const FSCK_DEADLINES_AHEAD_MS = ENQUEUED_LOOK_MAX_MS + 2 * MINUTE_MS;
/** Due rows that were moved lie at most so far ahead; any other stands at its job's own time. */
export const FSCK_DUE_AHEAD_MS = MINUTE_MS;
/** Rows read again together, payloads included, when they look damaged. */
export const FSCK_CONFIRM_ROWS = 500;
/** Findings kept; after a loss of more it is run again. */
export const FSCK_FINDINGS_MAX = 10_000;
export const FSCK_SAMPLES = 10;

/** The longest one sleep: timers beyond 2^31-1 ms fire at once, and a stepped clock is noticed within this. */
export const SLEEP_MAX_MS = MINUTE_MS;
