import type { Log, Telemetry } from '../../services/core/ports/telemetry.ts';

const ignore = (): void => undefined;

export const silentTelemetry: Telemetry = { count: ignore, observe: ignore, gauge: ignore, dropGauge: ignore };

export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
