import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, it } from 'node:test';
import { PROBLEMS } from '../../services/core/contract/problems.ts';
import { JOB_STATUSES, Outcome, PRIORITIES } from '../../services/core/domain/job-status.ts';
import { ClockChangeEffect, DstGap, DstRepeat } from '../../services/core/domain/cron-schedule.ts';
import * as limits from '../../services/core/domain/limits.ts';
import { OnMissed, OnOverlap, RunOutcome } from '../../services/core/domain/schedule.ts';
import { DOCUMENT, type DocumentedOperation, faultsOf } from '../support/openapi-check.ts';

const SCHEMAS = DOCUMENT.components.schemas;
const OPERATIONS = Object.values(DOCUMENT.paths)
  .flatMap((item) => Object.entries(item))
  .flatMap(([key, operation]) => (key === 'parameters' ? [] : [operation]));

/** A value inside the document's schemas, by its path. */
function at(...path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], SCHEMAS);
}

describe('the OpenAPI document', () => {
  it('names the error codes of the one table, and so do the docs', () => {
    assert.deepEqual(at('ProblemCode', 'enum'), Object.keys(PROBLEMS));
    const docs = readFileSync(resolve(import.meta.dirname, '../../schema/http/README.md'), 'utf8');
    const rows = [...docs.matchAll(/^\| `(\w+)` \| (\d+) \| (yes|no) \| (.*) \|$/gm)];
    assert.deepEqual(
      rows.map(([, code, status, retryable, title]) => [code, Number(status), retryable === 'yes', title]),
      Object.entries(PROBLEMS).map(([code, { status, retryable, title }]) => [code, status, retryable, title]),
    );
  });

  it('names each code with an answer of its status', () => {
    const told = JSON.stringify(DOCUMENT.components.responses);
    const notOfOneOperation = ['not_found', 'method_not_allowed'];
    for (const code of Object.keys(PROBLEMS)) {
      if (!notOfOneOperation.includes(code)) assert.ok(told.includes(code), `${code} stands in no answer`);
    }
  });

  it('has the states, outcomes and priorities of the domain', () => {
    assert.deepEqual(at('RunOutcome', 'enum'), Object.values(RunOutcome));
    assert.deepEqual(at('OnOverlap', 'enum'), Object.values(OnOverlap));
    assert.deepEqual(at('OnMissed', 'enum'), Object.values(OnMissed));
    assert.deepEqual(at('OnDstGap', 'enum'), Object.values(DstGap));
    assert.deepEqual(at('OnDstRepeat', 'enum'), Object.values(DstRepeat));
    assert.deepEqual(at('ClockChange', 'properties', 'effect', 'enum'), Object.values(ClockChangeEffect));
    assert.deepEqual(at('JobStatus', 'enum'), JOB_STATUSES);
    assert.deepEqual(at('Outcome', 'enum'), Object.values(Outcome));
    assert.deepEqual(at('Priority', 'enum'), PRIORITIES);
  });

  it('has the limits of the domain', () => {
    const job = ['CreateJobRequest', 'properties'] as const;
    const queue = ['QueueSettingsRequest', 'properties'] as const;
    for (const [limit, ...path] of [
      [limits.QUEUE_NAME_PATTERN, 'QueueName', 'pattern'],
      [limits.MAX_ATTEMPTS_MAX, ...job, 'max_attempts', 'maximum'],
      [limits.TIMEOUT_MAX_S, ...job, 'timeout_s', 'maximum'],
      [limits.LEASE_MIN_S, ...job, 'lease_s', 'minimum'],
      [limits.LEASE_MAX_S, ...job, 'lease_s', 'maximum'],
      [limits.LABELS_MAX, ...job, 'labels', 'maxProperties'],
      [limits.LABEL_KEY_MAX_CHARS, ...job, 'labels', 'propertyNames', 'maxLength'],
      [limits.LABEL_VALUE_MAX_CHARS, ...job, 'labels', 'additionalProperties', 'maxLength'],
      [limits.IDEMPOTENCY_KEY_MAX_CHARS, 'IdempotencyKey', 'maxLength'],
      [limits.CLAIM_ID_MAX_CHARS, 'ClaimId', 'maxLength'],
      [limits.WORKER_BATCH_MAX_ITEMS, 'ClaimBatchRequest', 'properties', 'items', 'maxItems'],
      [limits.WORKER_BATCH_MAX_ITEMS, 'HeartbeatBatchRequest', 'properties', 'items', 'maxItems'],
      [limits.WORKER_BATCH_MAX_ITEMS, 'CompleteBatchRequest', 'properties', 'items', 'maxItems'],
      [limits.WORKER_BATCH_MAX_ITEMS, 'ReleaseBatchRequest', 'properties', 'items', 'maxItems'],
      [limits.JOB_BATCH_MAX_ITEMS, 'CreateJobsRequest', 'properties', 'jobs', 'maxItems'],
      [limits.JITTER_MAX_S, ...job, 'jitter_s', 'maximum'],
      [limits.MAX_ATTEMPTS_MAX, 'PatchJobRequest', 'properties', 'max_attempts', 'maximum'],
      [limits.TIMEOUT_MAX_S, 'PatchJobRequest', 'properties', 'timeout_s', 'maximum'],
      [1 / limits.QUEUE_RATE_SLOWEST_S, ...queue, 'rate_per_s', 'minimum'],
      [limits.QUEUE_RATE_MAX_PER_S, ...queue, 'rate_per_s', 'maximum'],
      [limits.QUEUE_BURST_MAX, ...queue, 'burst', 'maximum'],
      [limits.QUEUE_RAMP_MAX_S, ...queue, 'ramp_s', 'maximum'],
      [limits.QUEUE_RUNNING_MAX, ...queue, 'max_running', 'maximum'],
      [limits.READY_PER_QUEUE_MAX, ...queue, 'ready_max', 'maximum'],
      [limits.QUEUE_WAITING_MAX, ...queue, 'max_waiting', 'maximum'],
      [limits.MAX_ATTEMPTS_MAX, ...queue, 'max_attempts', 'maximum'],
      [limits.TIMEOUT_MAX_S, ...queue, 'timeout_s', 'maximum'],
      [limits.LEASE_MIN_S, ...queue, 'lease_s', 'minimum'],
      [limits.LEASE_MAX_S, ...queue, 'lease_s', 'maximum'],
      ...(['retention_days', 'dead_retention_days'] as const).flatMap((name) => [
        [limits.RETENTION_MIN_DAYS, ...queue, name, 'minimum'] as const,
        [limits.RETENTION_MAX_DAYS, ...queue, name, 'maximum'] as const,
      ]),
      [limits.PAUSE_REASON_MAX_CHARS, 'PauseQueueRequest', 'properties', 'reason', 'maxLength'],
      [limits.SCHEDULE_BATCH_MAX_ITEMS, 'CreateSchedulesRequest', 'properties', 'schedules', 'maxItems'],
      ...(['CreateScheduleRequest', 'PatchScheduleRequest'] as const).flatMap((name) => [
        [limits.CRON_MAX_CHARS, name, 'properties', 'cron', 'maxLength'] as const,
        [limits.EVERY_MAX_S, name, 'properties', 'every_s', 'maximum'] as const,
        [limits.JITTER_MAX_S, name, 'properties', 'jitter_s', 'maximum'] as const,
        [limits.MISSED_LIMIT_MAX, name, 'properties', 'missed_limit', 'maximum'] as const,
        [limits.MAX_ATTEMPTS_MAX, name, 'properties', 'max_attempts', 'maximum'] as const,
        [limits.TIMEOUT_MAX_S, name, 'properties', 'timeout_s', 'maximum'] as const,
        [limits.LEASE_MAX_S, name, 'properties', 'lease_s', 'maximum'] as const,
      ]),
      [limits.LABELS_MAX, 'CreateScheduleRequest', 'properties', 'labels', 'maxProperties'],
      [limits.PAUSE_REASON_MAX_CHARS, 'PauseReason', 'maxLength'],
      [limits.LEASE_CALL_MAX_JOBS, 'LeaseRequest', 'properties', 'max', 'maximum'],
      [limits.LEASE_WAIT_MAX_S, 'LeaseRequest', 'properties', 'wait_s', 'maximum'],
    ] as const) {
      assert.equal(at(...path), limit, path.join('.'));
    }
    assert.equal(DOCUMENT.components.parameters['PageSize']?.schema['maximum'], limits.PAGE_SIZE_MAX);
    assert.equal(DOCUMENT.components.parameters['PreviewCount']?.schema['maximum'], limits.PREVIEW_SLOTS_MAX);
    for (const [bytes, ...path] of [
      [limits.PAYLOAD_MAX_BYTES, ...job, 'payload', 'description'],
      [limits.PAYLOAD_MAX_BYTES, 'PatchJobRequest', 'properties', 'payload', 'description'],
      [limits.RESULT_MAX_BYTES, 'AttemptResult', 'description'],
      [limits.PROGRESS_MAX_BYTES, 'HeartbeatRequest', 'properties', 'progress', 'description'],
      [limits.ERROR_TEXT_MAX_BYTES, 'ErrorText', 'description'],
    ] as const) {
      assert.match(String(at(...path)), new RegExp(`${bytes.toLocaleString('en')} bytes`), path.join('.'));
    }
  });

  it('closes every request, and no answer: clients must bear new members', () => {
    const isRequest = (name: string): boolean =>
      /(Request|ClaimItem|HeartbeatItem|CompleteItem|ReleaseItem)$/.test(name);
    for (const [name, schema] of Object.entries(SCHEMAS)) {
      if (schema['type'] !== 'object') continue;
      assert.equal(schema['additionalProperties'], isRequest(name) ? false : undefined, name);
    }
  });

  it('gives examples that are as it says', () => {
    const examples = OPERATIONS.flatMap(({ operationId, requestBody }: DocumentedOperation) => {
      const { schema = {}, examples: some = {} } = requestBody?.content['application/json'] ?? {};
      return Object.values(some).map(({ value }) => ({ operationId, schema, value }));
    });
    assert.ok(examples.length >= 8);
    for (const { operationId, schema, value } of examples)
      assert.deepEqual(faultsOf(schema, value, 'request'), [], operationId);
    for (const { content = {} } of Object.values(DOCUMENT.components.responses)) {
      for (const { schema, examples: some = {} } of Object.values(content)) {
        for (const { value } of Object.values(some)) assert.deepEqual(faultsOf(schema, value, 'answer'), []);
      }
    }
  });

  it('has an operation id and a way to fail for every operation that does work', () => {
    for (const { operationId, responses } of OPERATIONS) {
      assert.match(operationId, /^[a-z][A-Za-z]+$/);
      if (/Health|Readiness|Limits|Problems/.test(operationId)) continue;
      assert.ok('500' in responses, operationId);
      assert.ok('400' in responses, operationId);
    }
  });

  // Tried: openapi-python-client 0.29.1 and oapi-codegen 2. What they read wrongly comes out as a client that does not run.
  it('stays within what generators of Python and Go clients read', () => {
    const { schemas, parameters, responses } = DOCUMENT.components;
    const names = [schemas, parameters, responses].flatMap(Object.keys);
    assert.deepEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      [],
      'Go gives all components one namespace',
    );
    for (const { operationId, requestBody } of OPERATIONS) {
      if (requestBody === undefined) continue;
      // Both leave the body of a replay or a pause out, or send {}.
      assert.equal(requestBody.required, !['replayJob', 'pauseSchedule'].includes(operationId), operationId);
      assert.deepEqual(
        Object.keys(requestBody.content),
        ['application/json'],
        `${operationId}: Python fails on two types`,
      );
    }
    for (const schema of schemasWithin(DOCUMENT)) {
      const text = JSON.stringify(schema);
      const types = [schema['type']].flat();
      if (types.includes('number')) assert.equal(schema['format'], 'double', `Go takes single precision: ${text}`);
      if (Array.isArray(schema['enum'])) {
        assert.equal(schema['type'], 'string', `null goes beside an enum, by oneOf: ${text}`);
        assert.ok(
          schema['enum'].every((value) => typeof value === 'string'),
          text,
        );
      }
      // Two alternatives: two named schemas, or one of them and null.
      for (const union of ['oneOf', 'anyOf'].flatMap((keyword) => (schema[keyword] as Schema[] | undefined) ?? []))
        assert.ok('$ref' in union || union['type'] === 'null', `an alternative without a name: ${text}`);
      assert.ok(!('allOf' in schema), text);
    }
  });
});

type Schema = Readonly<Record<string, unknown>>;

/** Every object in the document that could be a schema. */
function schemasWithin(value: unknown): Schema[] {
  if (typeof value !== 'object' || value === null) return [];
  const within = Object.values(value).flatMap(schemasWithin);
  return Array.isArray(value) ? within : [value as Schema, ...within];
}
