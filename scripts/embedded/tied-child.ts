/**
 * The command line that runs a program tied to us: the kernel kills it when we die, even by kill -9, so that nothing is
 * left behind.
 */
export function tiedToUs(command: string, args: readonly string[]): [command: string, args: string[]] {
  return ['setpriv', ['--pdeathsig', 'KILL', command, ...args]];
}
