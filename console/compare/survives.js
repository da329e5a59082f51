// What an algorithm survives, read from its assumptions, and a run that shows it. Pure functions.

/** The words of an assumption that a fault breaks. */
const BREAKS = {
  order: /\bfifo\b|keep the order/i,
  loss: /\blossless\b|no message is lost/i,
  duplicate: /no duplicates|no message arrives twice/i,
  crash: /no crashes|no process crashes|only coordinators/i,
};

export function survives({assumes}, fault) {
  return !assumes.some((assumption) => BREAKS[fault].test(assumption));
}

/** A run with the fault, also if the algorithm does not tolerate it. */
export function trial(algorithm, fault) {
  const faults = {
    order: {network: 'async', order: 'unordered'}, loss: {loss: 0.05}, duplicate: {duplicate: 0.1}, crash: {faults: ['crash 1 @ 5']},
  };
  const spec = {algorithm: algorithm.name, n: 5, entries: 25, ...faults[fault]};
  return survives(algorithm, fault) ? spec : {...spec, 'ignore-assumptions': true};
}
