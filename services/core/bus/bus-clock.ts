import type { StreamInfo } from '@nats-io/jetstream';
import type { ClockSource } from '../ports/clock-source.ts';
import type { BusConnection } from './connection.ts';
import { BusNames } from './names.ts';

/** The wall clock of the ready stream's leader, which stamps every answer about the stream. */
export function createBusClock(
  { prefix }: { prefix?: string | undefined },
  { bus }: { bus: BusConnection },
): ClockSource {
  const stream = new BusNames(prefix).streamOf('');
  return {
    name: 'nats',
    now: async () => {
      // The typings leave it out.
      const { ts } = (await bus.link().jsm.streams.info(stream)) as StreamInfo & { readonly ts?: string };
      const at = Date.parse(ts ?? '');
      if (Number.isNaN(at)) throw new Error('nats does not tell its time');
      return at;
    },
  };
}
