import { createHash } from 'node:crypto';
import { isJobId } from '../../core/domain/ids.ts';
import type { EpochMs } from '../../core/domain/time.ts';

/** The last row of a page. */
export interface PagePosition {
  readonly at: EpochMs;
  readonly jobId: string;
}

/** What a list was asked for. Its token is good for nothing else. */
export type ListFilter = readonly (string | number | null)[];

const DIGEST_CHARS = 22;

/**
 * Opaque to callers. The digest binds the place to its list, against mistakes: a token opens nothing that its list does not
 * show anyway, so it needs no secret, and every process takes those of the others.
 */
export function pageToken(filter: ListFilter, { at, jobId }: PagePosition): string {
  const place = Buffer.from(`${at} ${jobId}`).toString('base64url');
  const digest = createHash('sha256')
    .update(JSON.stringify([...filter, place]))
    .digest('base64url');
  return `${place}.${digest.slice(0, DIGEST_CHARS)}`;
}

/** Null when the token is none, or of another list. */
export function pagePosition(filter: ListFilter, token: string): PagePosition | null {
  const place = Buffer.from(token.split('.')[0] ?? '', 'base64url').toString();
  const [, at, jobId = ''] = /^(\d{1,15}) (\S+)$/.exec(place) ?? [];
  const position = { at: Number(at), jobId };
  return isJobId(jobId) && token === pageToken(filter, position) ? position : null;
}
