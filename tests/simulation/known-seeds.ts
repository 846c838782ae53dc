/** Seeds that broke a promise once. What a seed draws moves with the code, so that each is a new run now and then; they cost little. */
export const KNOWN_SEEDS: readonly { readonly seed: number; readonly found: string }[] = [
  { seed: 4, found: 'an api whose clock was stepped 30 s ahead started a job early' },
  { seed: 7, found: 'the same by 10 minutes' },
  { seed: 21, found: 'a job whose turn came while the lease of its shard did not stand was forgotten' },
  { seed: 24, found: 'a held row that was the last one read was passed by the next owner of its shard' },
  { seed: 1033, found: 'a history row that the reaper could not write after a last lapse was never written again' },
  {
    seed: 70022,
    found:
      'a job that was called due by a clock that was set right a moment later started early; later also one by a clock that stepped while servers were asked for their time',
  },
  {
    seed: 70068,
    found: 'an api that had stood still handed out an attempt of an earlier try, of a job cancelled since',
  },
  {
    seed: 80077,
    found: 'a reading of a shard that was lost and won again saved its place in a lane that it did not know',
  },
  {
    seed: 80196,
    found: 'a lease waited for its neighbours in a process that stood still, and was handed out when it was over',
  },
  { seed: 80483, found: 'a round of minutes was taken for a fast one by a clock that was set back' },
  {
    seed: 90101,
    found: 'an occurrence that waited was started by the due row of a change of its time that was never made',
  },
  {
    seed: 90177,
    found: 'a heartbeat of a job that is to stop left its lease as it was, by an api whose clock is behind',
  },
  { seed: 90192, found: 'the history of a job that was discarded minutes after its death went on to call it dead' },
  { seed: 500429, found: 'an api that stood still decided slots by a timetable that was changed meanwhile' },
  { seed: 9500157, found: 'a heartbeat after the time limit was promised a whole lease; a mistake of the ledger' },
  { seed: 5500024, found: 'a job taken back by an api whose clock is behind got the due row that had been handled' },
];
