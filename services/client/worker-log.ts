/** Where a worker says what a person should know. Default: warnings on the error output. */
export type WorkerLog = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export const logToConsole: WorkerLog = (message, fields) => {
  console.warn(`punctual worker: ${message}`, fields);
};
