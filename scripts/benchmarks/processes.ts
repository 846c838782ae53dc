// What processes took, from /proc: CPU and memory. Of servers that others started too, found by the port they listen on.

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Kernel ticks per second, on every Linux that Node runs on. */
const TICKS_PER_S = 100;

/** CPU seconds so far, of user and system. */
export function cpuSeconds(pid: number): number {
  // The name in brackets may hold spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

export function peakRssMb(pid: number): number {
  return statusMb(pid, 'VmHWM');
}

export function rssMb(pid: number): number {
  return statusMb(pid, 'VmRSS');
}

function statusMb(pid: number, field: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024);
}

/** The process of ours that listens on the port of this machine, if there is one. */
export function listenerOf(port: number): number | undefined {
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0');
  const inode = ['/proc/net/tcp', '/proc/net/tcp6']
    .flatMap((file) => readFileSync(file, 'utf8').split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .find((fields) => fields[1]?.endsWith(`:${hexPort}`) === true && fields[3] === '0A')?.[9];
  if (inode === undefined) return undefined;
  return readdirSync('/proc')
    .map(Number)
    .find((pid) => Number.isInteger(pid) && holdsSocket(pid, inode));
}

function holdsSocket(pid: number, inode: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`);
  } catch {
    // Gone in between, or somebody else's.
    return false;
  }
}
