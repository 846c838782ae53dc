/**
 * Merges calls for single items into batch calls: one is under way, and what comes in meanwhile goes with the next. No timer
 * waits for a batch to fill: idle sends at once, busy batches by itself.
 */
export class MergingCalls<Item, Result> {
  readonly #call: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #itemsMax: number;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #busy = false;

  constructor(itemsMax: number, call: (items: readonly Item[]) => Promise<readonly Result[]>) {
    this.#itemsMax = itemsMax;
    this.#call = call;
  }

  /** Rejects with what the batch call rejects with. */
  submit(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      // After the caller's turn, so that items submitted together go together.
      queueMicrotask(() => void this.#send());
    });
  }

  async #send(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting.length > 0) await this.#sendBatch(this.#waiting.splice(0, this.#itemsMax));
    this.#busy = false;
  }

  async #sendBatch(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#call(batch.map(({ item }) => item));
      for (const [index, { resolve, reject }] of batch.entries()) {
        const result = results[index];
        if (result === undefined)
          reject(new Error(`a batch of ${batch.length} was answered with ${results.length} results`));
        else resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}
