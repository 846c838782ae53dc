import { errors, types } from 'cassandra-driver';
import { StoreError, type StoreErrorKind } from '../ports/store-error.ts';

/** A read that failed has written nothing, so that it is never `unknown`. */
export type Access = 'read' | 'write';

/**
 * The one translation of what the driver throws. Ambiguity is the default: only an error that proves that nothing was
 * written is called anything but unknown. On protocol v4 the server answers an undecided LWT with a write timeout of type
 * CAS; of 14 such answers 6 had been applied.
 */
export function toStoreError(cause: unknown, access: Access): StoreError {
  if (cause instanceof StoreError) return cause;
  const kind = kindOf(cause);
  return new StoreError(access === 'read' && kind === 'unknown' ? 'unavailable' : kind, describeCause(cause), {
    cause,
  });
}

/** One line for a log: the driver's own message for several hosts shows one of them, with its stack. */
export function describeCause(cause: unknown): string {
  if (cause instanceof errors.NoHostAvailableError) {
    const hosts = Object.entries(hostErrors(cause)).map(
      ([host, each]) => `${host}: ${describeCause(each ?? 'not asked')}`,
    );
    return hosts.length === 0 ? cause.message : hosts.join('; ');
  }
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}

function kindOf(cause: unknown): StoreErrorKind {
  if (cause instanceof errors.ResponseError) return kindOfResponse(cause.code);
  if (cause instanceof errors.NoHostAvailableError) return kindOfHosts(innerErrors(cause));
  if (cause instanceof errors.BusyConnectionError) return 'overloaded';
  if (cause instanceof errors.AuthenticationError) return 'unavailable';
  // Parameters that cannot be encoded: refused in this process, nothing was sent.
  if (cause instanceof errors.ArgumentError || cause instanceof TypeError || cause instanceof RangeError)
    return 'invalid';
  if (isSocketError(cause)) return cause.requestNotWritten === true ? 'unavailable' : 'unknown';
  return 'unknown';
}

function kindOfResponse(code: number): StoreErrorKind {
  const codes: Record<keyof typeof types.responseErrorCodes, number> = types.responseErrorCodes;
  switch (code) {
    case codes.unavailableException:
    case codes.isBootstrapping:
    case codes.unprepared:
    case codes.badCredentials:
      return 'unavailable';
    case codes.overloaded:
      return 'overloaded';
    case codes.protocolError:
    case codes.syntaxError:
    case codes.unauthorized:
    case codes.invalid:
    case codes.configError:
    case codes.alreadyExists:
      return 'invalid';
    default:
      // Write timeouts and failures, read timeouts and failures inside an LWT, truncation, server errors.
      return 'unknown';
  }
}

function hostErrors(error: errors.NoHostAvailableError): Readonly<Record<string, unknown>> {
  return (error.innerErrors as Record<string, unknown> | null) ?? {};
}

/** What each host said; null where it was not asked. */
export function innerErrors(error: errors.NoHostAvailableError): readonly unknown[] {
  return Object.values(hostErrors(error));
}

/** The driver lists what each host said when none is left: one ambiguous answer makes the whole ambiguous. */
function kindOfHosts(causes: readonly unknown[]): StoreErrorKind {
  const kinds = new Set(
    causes.filter((cause) => cause !== null && cause !== undefined && !isConnectFailure(cause)).map(kindOf),
  );
  for (const kind of ['unknown', 'invalid', 'overloaded'] as const) if (kinds.has(kind)) return kind;
  return 'unavailable';
}

/** Whether no node took a request, or the connection ended before its answer: not when one refused it or let it time out. */
export function isUnreached(cause: unknown): boolean {
  if (isSocketError(cause)) return true;
  if (!(cause instanceof errors.NoHostAvailableError)) return false;
  return innerErrors(cause).every(
    (each) => each === null || each === undefined || isConnectFailure(each) || isSocketError(each),
  );
}

/** Hosts that were never reached are listed with a connect error or the driver's note that they are considered down. */
function isConnectFailure(cause: unknown): boolean {
  if (typeof cause === 'string') return true;
  if (!(cause instanceof Error)) return false;
  // What the driver throws of a node that it knows and has no connection to yet.
  if (cause.message === 'No connection available') return true;
  const code = (cause as NodeJS.ErrnoException).code;
  return code === 'ECONNREFUSED' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH' || code === 'ENOTFOUND';
}

interface SocketError extends Error {
  readonly isSocketError: true;
  readonly requestNotWritten?: boolean;
}

function isSocketError(cause: unknown): cause is SocketError {
  return cause instanceof Error && 'isSocketError' in cause && cause.isSocketError === true;
}
