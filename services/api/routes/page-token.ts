import { createHash } from 'node:crypto';
import { isJobId } from '../../core/domain/ids.ts';
import { PAGE_SIZE_DEFAULT } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';

/** The last row of a page. */
export interface PagePosition {
  readonly at: EpochMs;
  /** Empty where the page ended between two jobs. */
  readonly jobId: string;
}

/** What a list was asked for. Its token is good for nothing else. */
export type ListFilter = readonly (string | number | null)[];

const DIGEST_CHARS = 22;

/**
 * Opaque to callers. The digest binds the place to its list, against mistakes: a token opens nothing that its list does not
 * show anyway, so it needs no secret, and every process takes those of the others.
 */
export function placeToken(filter: ListFilter, place: string): string {
  const encoded = Buffer.from(place).toString('base64url');
  const digest = createHash('sha256')
    .update(JSON.stringify([...filter, encoded]))
    .digest('base64url');
  return `${encoded}.${digest.slice(0, DIGEST_CHARS)}`;
}

/** Null when the token is none, or of another list. */
export function placeOf(filter: ListFilter, token: string): string | null {
  const place = Buffer.from(token.split('.')[0] ?? '', 'base64url').toString();
  return token === placeToken(filter, place) ? place : null;
}

export function pageToken(filter: ListFilter, { at, jobId }: PagePosition): string {
  return placeToken(filter, `${at} ${jobId}`);
}

/** Null when the token is none, or of another list. */
export function pagePosition(filter: ListFilter, token: string): PagePosition | null {
  const [, at, jobId] = /^(\d{1,15}) (\S*)$/.exec(placeOf(filter, token) ?? '') ?? [];
  if (jobId === undefined || (jobId !== '' && !isJobId(jobId))) return null;
  return { at: Number(at), jobId };
}

export function pageSizeOf(query: Readonly<Record<string, string>>): number {
  return Number(query['page_size'] ?? PAGE_SIZE_DEFAULT);
}
