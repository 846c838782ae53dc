/** Runs the program of an entry in scripts/. An error becomes one message without a stack, and exit code 1. */
export async function runProgram(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(`scripts/${name}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
