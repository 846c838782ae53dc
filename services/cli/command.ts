/** What every command's end means to a script that runs it. */
export const ExitCode = {
  ok: 0,
  /** Understood and answered with no: the job is not there, its state does not allow it. */
  refused: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The server cannot be reached. */
  unreachable: 3,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

export interface Output {
  write(text: string): void;
}

export interface Command {
  readonly name: string;
  /** One line each: how it is called and what it does. */
  readonly usage: readonly string[];
  /** Its name alone is a whole command line. */
  readonly isWhole?: boolean;
  /** Throws UsageError when the words make no sense. */
  run(words: readonly string[], output: Output): Promise<ExitCode> | ExitCode;
}
