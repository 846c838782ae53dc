// Programs of a benchmark in processes of their own, which answer questions over the channel that spawn gives them.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { tiedToUs } from '../embedded/tied-child.ts';

type Question = { readonly id: number; readonly method: string; readonly argument: unknown };
type Answer = { readonly id: number; readonly value: unknown } | { readonly id: number; readonly fault: string };

/** What a program answers to, by the name of the question. */
export type Methods = Readonly<Record<string, (argument: never) => unknown>>;
type ArgumentOf<M> = M extends (argument: infer A) => unknown ? A : never;
type ValueOf<M> = M extends (argument: never) => infer V ? Awaited<V> : never;

export interface ChildProgram<M extends Methods> {
  readonly name: string;
  readonly pid: number;
  /** Rejects with what the program says is wrong, and when it ends without an answer. */
  ask<Name extends keyof M & string>(name: Name, argument: ArgumentOf<M[Name]>): Promise<ValueOf<M[Name]>>;
  stop(): Promise<void>;
}

/** Starts scripts/benchmarks/<file>, which must call `answerQuestions`; it never outlives us. */
export function startChild<M extends Methods>(
  name: string,
  file: string,
  args: readonly string[] = [],
): ChildProgram<M> {
  const command = tiedToUs(process.execPath, [...process.execArgv, join(import.meta.dirname, file), ...args]);
  // A process group of its own: Ctrl-C at our terminal is ours to pass on.
  const child = spawn(...command, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true });
  const open = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let asked = 0;
  child.on('message', (message) => {
    const answer = message as Answer;
    const waiting = open.get(answer.id);
    open.delete(answer.id);
    if ('fault' in answer) waiting?.reject(new Error(`${name}: ${answer.fault}`));
    else waiting?.resolve(answer.value);
  });
  child.once('exit', (code, signal) => {
    for (const { reject } of open.values()) reject(new Error(`${name} ended with ${signal ?? `code ${code ?? 0}`}`));
    open.clear();
  });
  return {
    name,
    pid: child.pid ?? 0,
    ask: (method, argument) =>
      new Promise((resolve, reject) => {
        asked += 1;
        open.set(asked, { resolve: resolve as (value: unknown) => void, reject });
        child.send({ id: asked, method, argument } satisfies Question);
      }),
    stop: () => stopChild(child),
  };
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** The child's side. */
export function answerQuestions(methods: Methods): void {
  process.on('message', (message) => {
    const { id, method, argument } = message as Question;
    const answer = async (): Promise<unknown> => methods[method]?.(argument as never);
    answer().then(
      (value) => process.send?.({ id, value } satisfies Answer),
      (error: unknown) => process.send?.({ id, fault: String(error) } satisfies Answer),
    );
  });
}
