/** Settings that all processes must agree on, written once into the table `settings`. Throws StoreError. */
export interface SettingsStore {
  /** Returns the stored value, storing the seed first when there is none. */
  readOrSeed(name: string, seed: string): Promise<string>;
  /** Null when nobody has written it yet. */
  read(name: string): Promise<string | null>;
}
