import type { BusFault } from '../support/memory-bus.ts';
import type { Fault } from '../support/memory-store.ts';

/** What is to befall the very next call, taken by the fake as the call begins. */
export class Pending {
  store: Fault | undefined;
  bus: BusFault | undefined;

  takeStore(): Fault | undefined {
    const fault = this.store;
    this.store = undefined;
    return fault;
  }

  takeBus(): BusFault | undefined {
    const fault = this.bus;
    this.bus = undefined;
    return fault;
  }
}
