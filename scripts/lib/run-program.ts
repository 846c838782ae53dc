/**
 * Runs the program of an entry in scripts/ and ends the process with it, whatever still waits. An error becomes one message
 * without a stack, and exit code 1.
 */
export async function runProgram(name: string, main: () => Promise<void>): Promise<never> {
  try {
    await main();
  } catch (error) {
    console.error(`scripts/${name}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
  process.exit();
}
