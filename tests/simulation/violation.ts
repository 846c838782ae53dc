/** A broken promise: the run ends with the first one. */
export interface Violation {
  /** The rule that was broken, in a few words that a test can name. */
  readonly rule: string;
  readonly detail: string;
  /** A job id, whose lines of the trace tell the story. */
  readonly subject: string | null;
}

export type Report = (violation: Violation) => void;
