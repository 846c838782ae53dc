import { runCli } from './cli.ts';

// Whoever reads the output may have had enough: `| head` is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

process.exitCode = await runCli(process.argv.slice(2), { output: process.stdout, errors: process.stderr });
