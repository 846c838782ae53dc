/** Room for rows that scanners share: each has some of its own, and whoever needs more takes from here. */
export class RowPool {
  #room: number;

  constructor(rows: number) {
    this.#room = rows;
  }

  get room(): number {
    return this.#room;
  }

  /** All of it or nothing: false when there is less left. */
  take(rows: number): boolean {
    if (this.#room < rows) return false;
    this.#room -= rows;
    return true;
  }

  giveBack(rows: number): void {
    this.#room += rows;
  }
}
