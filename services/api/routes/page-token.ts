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
  return `${place}.${digestOf(filter, place)}`;
}

/** Null when the token is none, or of another list. */
export function pagePosition(filter: ListFilter, token: string): PagePosition | null {
  const [place = '', digest = ''] = token.split('.');
  const [, at, jobId = ''] = /^(\d{1,15}) (\S+)$/.exec(Buffer.from(place, 'base64url').toString()) ?? [];
  if (digest !== digestOf(filter, place) || !isJobId(jobId)) return null;
  return { at: Number(at), jobId };
}

function digestOf(filter: ListFilter, place: string): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([...filter, place]))
    .digest('base64url');
  return digest.slice(0, DIGEST_CHARS);
}
