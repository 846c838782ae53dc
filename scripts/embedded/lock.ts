import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Runs `step` while no other process on this machine holds the lock file. Node has no flock of its own: a child holds it
 * and waits on our pipe, so that the lock goes when we do, however we end.
 */
export async function withLock<T>(file: string, step: () => Promise<T>): Promise<T> {
  mkdirSync(dirname(file), { recursive: true });
  const holder = spawn('flock', [file, 'sh', '-c', 'echo held; read _'], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(holder, 'close');
  await once(holder.stdout, 'data');
  try {
    return await step();
  } finally {
    holder.stdin.end();
    await closed;
  }
}

/** Takes the lock if nobody holds it, until the returned function is called or we end; null: somebody does. */
export async function tryLock(file: string): Promise<(() => Promise<void>) | null> {
  mkdirSync(dirname(file), { recursive: true });
  const holder = spawn('flock', ['--nonblock', file, 'sh', '-c', 'echo held; read _'], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(holder, 'close');
  const isHeld = await Promise.race([once(holder.stdout, 'data').then(() => true), closed.then(() => false)]);
  if (!isHeld) return null;
  return async () => {
    holder.stdin.end();
    await closed;
  };
}
