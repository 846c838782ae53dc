// To be imported into a service's process before all else (node --import): SIGUSR2 sets its wall clock 6 s ahead, and the
// next one right again.

const AHEAD_MS = 6_000;
const rightNow = Date.now.bind(Date);
let aheadMs = 0;

Date.now = () => rightNow() + aheadMs;
process.on('SIGUSR2', () => {
  aheadMs = AHEAD_MS - aheadMs;
});
