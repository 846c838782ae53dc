import { type DestinationStream, destination, pino, stdTimeFunctions } from 'pino';
import type { Log } from '../ports/telemetry.ts';

export interface JsonLogOptions {
  readonly service: string;
  /** Tells processes of one service apart. */
  readonly memberId: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** Standard output unless a test listens. */
  readonly stream?: DestinationStream;
}

/** One JSON object a line: level, time (RFC 3339), service, member, message, then the fields of the call. */
export function createLog({ service, memberId, level, stream = standardOutput() }: JsonLogOptions): Log {
  const logger = pino(
    {
      level,
      base: { service, member: memberId },
      timestamp: stdTimeFunctions.isoTime,
      messageKey: 'message',
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
  return {
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
  };
}

/** Written synchronously, so that the last words of a process that dies are not lost; nothing is logged per request. */
function standardOutput(): DestinationStream {
  const stream = destination({ fd: 1, sync: true });
  // Whoever read our output is gone: work goes on without a log.
  stream.on('error', () => undefined);
  return stream;
}
