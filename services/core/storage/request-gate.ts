import { StoreError } from '../ports/store-error.ts';

/**
 * Bounds the requests in flight of one class: what comes beyond waits in order, and beyond that bound too it is refused at
 * once. Without it the driver queues without end inside the process and everything times out together.
 */
export class RequestGate {
  readonly #inFlightMax: number;
  readonly #waitingMax: number;
  readonly #onChange: (inFlight: number) => void;
  readonly #waiting = new Set<() => void>();
  #inFlight = 0;

  constructor(options: { inFlightMax: number; waitingMax: number; onChange: (inFlight: number) => void }) {
    this.#inFlightMax = options.inFlightMax;
    this.#waitingMax = options.waitingMax;
    this.#onChange = options.onChange;
  }

  /** Throws StoreError('overloaded') when the queue is full; nothing was sent then. */
  async run<Result>(request: () => Promise<Result>): Promise<Result> {
    if (this.#inFlight >= this.#inFlightMax) await this.#turn();
    else this.#count(1);
    try {
      return await request();
    } finally {
      this.#passOn();
    }
  }

  /** Resolves when a request that ended hands its place over. */
  #turn(): Promise<void> {
    if (this.#waiting.size >= this.#waitingMax) {
      throw new StoreError('overloaded', `${this.#waitingMax} requests wait already`);
    }
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
    });
  }

  #passOn(): void {
    // A Set keeps insertion order: its first is the one that has waited longest.
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#count(-1);
      return;
    }
    this.#waiting.delete(next);
    next();
  }

  #count(by: number): void {
    this.#inFlight += by;
    this.#onChange(this.#inFlight);
  }
}
