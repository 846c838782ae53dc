/** Room for rows that scanners share: each has some of its own, and whoever needs more takes from here. */
export class RowPool {
  #room: number;

  constructor(rows: number) {
    this.#room = rows;
  }

  get room(): number {
    return this.#room;
  }

  /** False when there is none left. */
  take(): boolean {
    if (this.#room === 0) return false;
    this.#room -= 1;
    return true;
  }

  giveBack(rows: number): void {
    this.#room += rows;
  }
}
