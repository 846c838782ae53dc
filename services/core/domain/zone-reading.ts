import { DateTime } from 'luxon';
import type { EpochMs } from './time.ts';

/**
 * What a clock on the wall in the zone shows at an instant, for people to read: `Sun 2026-03-08 03:00 -04:00`, with seconds where
 * there are any. Which instant a reading names is another question, which luxon is not asked (decision 0010).
 */
export function zoneReading(timeZone: string, at: EpochMs): string {
  const reading = DateTime.fromMillis(at, {
    zone: timeZone,
    locale: 'en-US',
    numberingSystem: 'latn',
    outputCalendar: 'gregory',
  });
  return reading.toFormat(reading.second === 0 ? 'ccc yyyy-MM-dd HH:mm ZZ' : 'ccc yyyy-MM-dd HH:mm:ss ZZ');
}
