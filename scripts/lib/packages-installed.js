// Exits 0 if node_modules holds what package-lock.json says. Plain JavaScript without imports of ours: it runs before
// `npm ci`, on whatever Node the machine has. npm writes node_modules/.package-lock.json as the last step of an install,
// so that an install cut short is found too.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

const root = process.argv[2] ?? '.';

function readPackages(path) {
  return JSON.parse(readFileSync(join(root, path), 'utf8')).packages;
}

function isInstalled() {
  const wanted = readPackages('package-lock.json');
  const present = readPackages('node_modules/.package-lock.json');
  // Optional packages are left out on the machines that they are not for.
  const lacking = Object.keys(wanted).filter((path) => path !== '' && !(path in present) && !wanted[path].optional);
  const different = Object.keys(present).filter((path) => present[path].version !== wanted[path]?.version);
  return lacking.length === 0 && different.length === 0;
}

try {
  process.exitCode = isInstalled() ? 0 : 1;
} catch {
  process.exitCode = 1;
}
